package org.bq4.example;

import java.nio.charset.StandardCharsets;

/** A model in this process, through jni.c. One thread at a time; not the one that draws. */
public final class Bq4 implements AutoCloseable {
  static {
    System.loadLibrary("bq4");
  }

  /** Hears a reply as it comes, in whole characters. */
  public interface Listener {
    /** false: enough. */
    boolean text(String text);
  }

  /** What the engine says is wrong: its status, what and where, and what to do. */
  public static final class Failure extends RuntimeException {
    Failure(String message) {
      super(message);
    }
  }

  private long model;

  /** @param file a .bq4 file, whole @param context positions; 0: the model's own */
  public Bq4(byte[] file, int context) {
    model = open(file, context);
  }

  /** Goes on from a prompt that has the model's chat tokens in it. temperature 0: the likeliest. */
  public void reply(String prompt, int most, float temperature, long seed, Listener listener) {
    if (model == 0) throw new IllegalStateException("closed");
    run(model, prompt.getBytes(StandardCharsets.UTF_8), most, temperature, seed, listener);
  }

  @Override
  public void close() {
    if (model != 0) close(model);
    model = 0;
  }

  /** Called by jni.c. */
  private static boolean tell(Listener listener, byte[] text) {
    return listener.text(new String(text, StandardCharsets.UTF_8));
  }

  /** Called by jni.c. */
  private static Failure failure(byte[] message) {
    return new Failure(new String(message, StandardCharsets.UTF_8));
  }

  private static native long open(byte[] file, int context);

  private static native void run(
      long model, byte[] prompt, int most, float temperature, long seed, Listener listener);

  private static native void close(long model);
}
