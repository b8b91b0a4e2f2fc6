/* A small interface over bq4's C interface, for apps in other languages: one model, one reply at a
 * time.
 *
 *   reply_open(bytes) -> reply_run(prompt) -> reply_text for each part -> reply_close
 *
 * Used by jni.c (Java, Kotlin) and Bq4.m (Objective-C, Swift). It starts no threads. A call can
 * take seconds, so it is made from a thread of the app that can wait. */
#ifndef REPLY_H
#define REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bq.h"

/* A model and its session; the caller owns it until reply_close. */
typedef struct reply_model reply_model;

/* Opens a .bq4 file from all of its bytes, which are checked and copied. `context`: number of
 * positions of the session; 0: the model's context length. Returns NULL after an error, with the
 * reason in *err. */
reply_model *reply_open(const uint8_t *bytes, size_t n, uint32_t context, bq_error *err);
/* Frees a model; NULL is allowed. */
void reply_close(reply_model *model);

/* Receives a part of a reply: complete UTF-8 characters, without a terminating 0, valid during the
 * call. Returns false to stop the reply. */
typedef bool (*reply_text)(void *ctx, const char *text, size_t n);

/* Continues `prompt` (n bytes of UTF-8, with the model's chat tokens such as <|im_start|>) by at
 * most `max_tokens` tokens, until an end token, or until `pass_text` returns false. Temperature 0
 * is greedy sampling; with another temperature the same seed gives the same text on every machine.
 * The common prefix with the previous prompt is not computed again. */
bq_status reply_run(reply_model *model, const char *prompt, size_t n, uint32_t max_tokens,
                    float temperature, uint64_t seed, reply_text pass_text, void *ctx,
                    bq_error *err);

#endif
