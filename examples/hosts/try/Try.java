import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.bq4.example.Bq4;

/** Bq4.java at a desk: java Try MODEL PROMPT TOKENS, one part of the reply a line, then what a file that is none says. */
public final class Try {
  public static void main(String[] given) throws Exception {
    int most = Integer.parseInt(given[2]);
    try (Bq4 model = new Bq4(Files.readAllBytes(Path.of(given[0])), 256)) {
      model.reply(given[1], most, 0, 0, text -> say(text));
      int[] parts = {0};
      model.reply(given[1], most, 0, 0, text -> ++parts[0] < 3);
      say("stopped after " + parts[0]);
      try {
        model.reply(given[1], most, 0, 0, text -> { throw new IllegalStateException("thrown"); });
      } catch (IllegalStateException error) {
        say(error.getMessage());
      }
    }
    try (Bq4 none = new Bq4(new byte[100], 0)) {
      say("no failure");
    } catch (Bq4.Failure error) {
      say(error.getMessage());
    }
  }

  private static boolean say(String text) {
    System.out.writeBytes((text + "\n").getBytes(StandardCharsets.UTF_8));
    return true;
  }
}
