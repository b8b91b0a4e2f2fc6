/* What an app's own language needs of bq4's C interface, for one model and one reply at a time:
 *
 *   reply_open(bytes) -> reply_run(prompt) -> text as it comes -> reply_close
 *
 * Used by jni.c (Java, Kotlin) and Bq4.m (Objective-C, Swift) beside this file. No thread is started
 * here: call it from one of the app's that may be busy for seconds. */
#ifndef REPLY_H
#define REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bq.h"

/* A model and its session, the caller's until reply_close. */
typedef struct reply_model reply_model;

/* A .bq4 file, whole: the bytes are copied, what they say is checked. `context`: positions of the
 * session; 0: the model's own. NULL: *err says why. */
reply_model *reply_open(const uint8_t *bytes, size_t n, uint32_t context, bq_error *err);
void reply_close(reply_model *model);

/* UTF-8 in whole characters, not terminated; valid during the call. false: enough. */
typedef bool (*reply_text)(void *ctx, const char *text, size_t n);

/* Goes on from `prompt` (UTF-8, with the model's chat tokens such as <|im_start|> in it), by at most
 * `most` tokens, until the model ends or `told` wants no more. temperature 0: greedy; with another
 * one the same seed gives the same text, on every machine. What a prompt shares with the one before
 * is not computed again. */
bq_status reply_run(reply_model *model, const char *prompt, size_t n, uint32_t most,
                    float temperature, uint64_t seed, reply_text told, void *ctx, bq_error *err);

#endif
