/* The native methods of Bq4.java, implemented with reply.h. Text is passed as UTF-8 bytes, since the
 * strings of JNI are modified UTF-8, in which a character beyond U+FFFF has six bytes. */
#include <jni.h>
#include <stdio.h>
#include <string.h>

#include "reply.h"

/* A new Java array of n bytes of text, or NULL with an exception pending. */
static jbyteArray new_array(JNIEnv *env, const char *text, size_t n) {
  jbyteArray array = (*env)->NewByteArray(env, (jsize)n);
  if (array) (*env)->SetByteArrayRegion(env, array, 0, (jsize)n, (const jbyte *)text);
  return array;
}

/* Throws a Bq4.Failure with the status, detail and hint of *err, unless an exception is pending. */
static void throw_error(JNIEnv *env, jclass type, const bq_error *err) {
  if ((*env)->ExceptionCheck(env)) return;
  char message[640];
  int n = snprintf(message, sizeof message, "%s: %s (%s)", bq_status_name(err->status), err->detail,
                   bq_status_hint(err->status));
  jmethodID create = (*env)->GetStaticMethodID(env, type, "createFailure",
                                               "([B)Lorg/bq4/example/Bq4$Failure;");
  if (!create) return;
  jbyteArray text = new_array(env, message, n < (int)sizeof message ? (size_t)n : sizeof message - 1);
  jobject failure = text ? (*env)->CallStaticObjectMethod(env, type, create, text) : NULL;
  if (failure && !(*env)->ExceptionCheck(env)) (*env)->Throw(env, (jthrowable)failure);
}

JNIEXPORT jlong JNICALL Java_org_bq4_example_Bq4_open(JNIEnv *env, jclass type, jbyteArray file,
                                                      jint context) {
  bq_error err = {0};
  jsize n = (*env)->GetArrayLength(env, file);
  jbyte *bytes = (*env)->GetByteArrayElements(env, file, NULL);
  if (!bytes) return 0;
  uint32_t positions = context > 0 ? (uint32_t)context : 0;
  reply_model *model = reply_open((const uint8_t *)bytes, (size_t)n, positions, &err);
  (*env)->ReleaseByteArrayElements(env, file, bytes, JNI_ABORT);
  if (!model) throw_error(env, type, &err);
  return (jlong)(intptr_t)model;
}

/* A listener and the static method of Bq4 that calls it; valid during one call of run(). */
typedef struct listener {
  JNIEnv *env;
  jclass type;
  jmethodID method;
  jobject listener;
} listener;

/* A reply_text: passes text to the listener. False stops the reply: the listener returned false, or
 * an exception is pending. */
static bool pass_text(void *ctx, const char *text, size_t n) {
  listener *l = ctx;
  JNIEnv *env = l->env;
  jbyteArray bytes = new_array(env, text, n);
  jboolean more = JNI_FALSE;
  if (bytes) more = (*env)->CallStaticBooleanMethod(env, l->type, l->method, l->listener, bytes);
  /* The table of local references is smaller than the number of parts of a reply. */
  if (bytes) (*env)->DeleteLocalRef(env, bytes);
  return more && !(*env)->ExceptionCheck(env);
}

JNIEXPORT void JNICALL Java_org_bq4_example_Bq4_run(JNIEnv *env, jclass type, jlong model,
                                                    jbyteArray prompt, jint max_tokens,
                                                    jfloat temperature, jlong seed,
                                                    jobject receiver) {
  bq_error err = {0};
  jmethodID method = (*env)->GetStaticMethodID(env, type, "passText",
                                               "(Lorg/bq4/example/Bq4$Listener;[B)Z");
  jsize n = (*env)->GetArrayLength(env, prompt);
  jbyte *bytes = method ? (*env)->GetByteArrayElements(env, prompt, NULL) : NULL;
  if (!bytes) return;
  listener l = {env, type, method, receiver};
  bq_status status = reply_run((reply_model *)(intptr_t)model, (const char *)bytes, (size_t)n,
                               max_tokens > 0 ? (uint32_t)max_tokens : 0, temperature,
                               (uint64_t)seed, pass_text, &l, &err);
  /* JNI allows this call while an exception of the listener is pending. */
  (*env)->ReleaseByteArrayElements(env, prompt, bytes, JNI_ABORT);
  if (status) throw_error(env, type, &err);
}

JNIEXPORT void JNICALL Java_org_bq4_example_Bq4_close(JNIEnv *env, jclass type, jlong model) {
  (void)env;
  (void)type;
  reply_close((reply_model *)(intptr_t)model);
}
