import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.bq4.example.Bq4;

/**
 * Runs Bq4.java without a phone: java Try MODEL PROMPT TOKENS. Prints each part of the reply in a line, then the results of a stop, of
 * an exception in the listener, and of bytes that are no model.
 */
public final class Try {
  public static void main(String[] args) throws Exception {
    String prompt = args[1];
    int maxTokens = Integer.parseInt(args[2]);
    try (Bq4 model = new Bq4(Files.readAllBytes(Path.of(args[0])), 256)) {
      model.reply(prompt, maxTokens, 0, 0, text -> print(text));
      int[] parts = {0};
      model.reply(prompt, maxTokens, 0, 0, text -> ++parts[0] < 3);
      print("stopped after " + parts[0]);
      try {
        model.reply(prompt, maxTokens, 0, 0, text -> { throw new IllegalStateException("thrown"); });
      } catch (IllegalStateException error) {
        print(error.getMessage());
      }
    }
    try (Bq4 model = new Bq4(new byte[100], 0)) {
      print("expected a failure, but 100 zero bytes were loaded");
    } catch (Bq4.Failure error) {
      print(error.getMessage());
    }
  }

  private static boolean print(String text) {
    System.out.writeBytes((text + "\n").getBytes(StandardCharsets.UTF_8));
    return true;
  }
}
