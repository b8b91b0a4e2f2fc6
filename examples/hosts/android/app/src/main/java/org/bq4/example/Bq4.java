package org.bq4.example;

import java.nio.charset.StandardCharsets;

/**
 * A model in this process, through jni.c. Its methods are called from one thread at a time; not from
 * the main thread, since they can take seconds.
 */
public final class Bq4 implements AutoCloseable {
  static {
    System.loadLibrary("bq4");
  }

  /** Receives the parts of a reply, in complete characters. */
  public interface Listener {
    /** Returns false to stop the reply. */
    boolean text(String text);
  }

  /** An error of the engine. The message has its status, its detail and a hint. */
  public static final class Failure extends RuntimeException {
    Failure(String message) {
      super(message);
    }
  }

  private long model;

  /**
   * @param file all bytes of a .bq4 file
   * @param context number of positions; 0: the model's context length
   */
  public Bq4(byte[] file, int context) {
    model = open(file, context);
  }

  /**
   * Continues a prompt, which contains the model's chat tokens, by at most maxTokens tokens.
   * Temperature 0 is greedy sampling.
   */
  public void reply(
      String prompt, int maxTokens, float temperature, long seed, Listener listener) {
    if (model == 0) throw new IllegalStateException("the model is closed: open a new one");
    run(model, prompt.getBytes(StandardCharsets.UTF_8), maxTokens, temperature, seed, listener);
  }

  @Override
  public void close() {
    if (model != 0) close(model);
    model = 0;
  }

  /** Called by jni.c. */
  private static boolean passText(Listener listener, byte[] text) {
    return listener.text(new String(text, StandardCharsets.UTF_8));
  }

  /** Called by jni.c. */
  private static Failure createFailure(byte[] message) {
    return new Failure(new String(message, StandardCharsets.UTF_8));
  }

  private static native long open(byte[] file, int context);

  private static native void run(
      long model, byte[] prompt, int maxTokens, float temperature, long seed, Listener listener);

  private static native void close(long model);
}
