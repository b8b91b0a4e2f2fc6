/* The border between Bq4.java and reply.h. Text crosses it as bytes: JNI's own strings are a UTF-8
 * of their own kind, in which a character beyond U+FFFF takes six. */
#include <jni.h>
#include <stdio.h>
#include <string.h>

#include "reply.h"

static jbyteArray array_of(JNIEnv *env, const char *text, size_t n) {
  jbyteArray array = (*env)->NewByteArray(env, (jsize)n);
  if (array) (*env)->SetByteArrayRegion(env, array, 0, (jsize)n, (const jbyte *)text);
  return array;
}

/* Throws a Failure, unless something is thrown already. */
static void throw_error(JNIEnv *env, jclass type, const bq_error *err) {
  if ((*env)->ExceptionCheck(env)) return;
  char message[640];
  int n = snprintf(message, sizeof message, "%s: %s (%s)", bq_status_name(err->status), err->detail,
                   bq_status_hint(err->status));
  jmethodID make = (*env)->GetStaticMethodID(env, type, "failure",
                                             "([B)Lorg/bq4/example/Bq4$Failure;");
  if (!make) return;
  jbyteArray text = array_of(env, message, n < (int)sizeof message ? (size_t)n : sizeof message - 1);
  jobject thrown = text ? (*env)->CallStaticObjectMethod(env, type, make, text) : NULL;
  if (thrown && !(*env)->ExceptionCheck(env)) (*env)->Throw(env, (jthrowable)thrown);
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

typedef struct listener {
  JNIEnv *env;
  jclass type;
  jmethodID tell;
  jobject listener;
} listener;

static bool told(void *ctx, const char *text, size_t n) {
  listener *l = ctx;
  JNIEnv *env = l->env;
  jbyteArray bytes = array_of(env, text, n);
  jboolean more = JNI_FALSE;
  if (bytes) more = (*env)->CallStaticBooleanMethod(env, l->type, l->tell, l->listener, bytes);
  /* A reply is longer than the table of a call's references. */
  if (bytes) (*env)->DeleteLocalRef(env, bytes);
  return more && !(*env)->ExceptionCheck(env);
}

JNIEXPORT void JNICALL Java_org_bq4_example_Bq4_run(JNIEnv *env, jclass type, jlong model,
                                                    jbyteArray prompt, jint most,
                                                    jfloat temperature, jlong seed,
                                                    jobject to) {
  bq_error err = {0};
  jmethodID tell = (*env)->GetStaticMethodID(env, type, "tell",
                                             "(Lorg/bq4/example/Bq4$Listener;[B)Z");
  jsize n = (*env)->GetArrayLength(env, prompt);
  jbyte *bytes = tell ? (*env)->GetByteArrayElements(env, prompt, NULL) : NULL;
  if (!bytes) return;
  listener l = {env, type, tell, to};
  bq_status status = reply_run((reply_model *)(intptr_t)model, (const char *)bytes, (size_t)n,
                               most > 0 ? (uint32_t)most : 0, temperature, (uint64_t)seed, told, &l,
                               &err);
  /* Allowed, too, while an exception of the listener's is on its way. */
  (*env)->ReleaseByteArrayElements(env, prompt, bytes, JNI_ABORT);
  if (status) throw_error(env, type, &err);
}

JNIEXPORT void JNICALL Java_org_bq4_example_Bq4_close(JNIEnv *env, jclass type, jlong model) {
  (void)env;
  (void)type;
  reply_close((reply_model *)(intptr_t)model);
}
