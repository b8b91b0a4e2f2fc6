package org.bq4.example;

import android.app.Activity;
import android.os.Bundle;
import android.webkit.WebResourceRequest;
import android.webkit.WebResourceResponse;
import android.webkit.WebView;
import android.webkit.WebViewClient;
import java.io.IOException;
import java.io.InputStream;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;

/**
 * The package in a WebView: page, engine and model lie in the app's assets and are answered for from
 * there, under an https: address, so that the page has workers, WebAssembly and a cache. Without
 * cross-origin isolation, which a WebView has not, the engine computes with one thread.
 */
public final class MainActivity extends Activity {
  /** Reserved for this by Android: it leads nowhere else. */
  private static final String ORIGIN = "https://appassets.androidplatform.net/";

  @Override
  protected void onCreate(Bundle state) {
    super.onCreate(state);
    WebView view = new WebView(this);
    view.getSettings().setJavaScriptEnabled(true);
    view.getSettings().setDomStorageEnabled(true);
    view.setWebViewClient(new Assets());
    setContentView(view);
    view.loadUrl(ORIGIN + "index.html");
  }

  private final class Assets extends WebViewClient {
    @Override
    public WebResourceResponse shouldInterceptRequest(WebView view, WebResourceRequest request) {
      String address = request.getUrl().toString();
      if (!address.startsWith(ORIGIN)) return null;
      String path = address.substring(ORIGIN.length()).replaceFirst("[?#].*$", "");
      try {
        return answer(path, getAssets().open(path));
      } catch (IOException error) {
        return new WebResourceResponse("text/plain", "utf-8", 404, "Not Found", headers(), null);
      }
    }
  }

  /** Whole, whatever range is asked for: the engine can do with that, and reads it as a stream. */
  private static WebResourceResponse answer(String path, InputStream body) {
    return new WebResourceResponse(typeOf(path), null, 200, "OK", headers(), body);
  }

  private static Map<String, String> headers() {
    return new HashMap<>(Collections.singletonMap("Cache-Control", "no-cache"));
  }

  private static String typeOf(String path) {
    if (path.endsWith(".html")) return "text/html";
    if (path.endsWith(".js")) return "text/javascript";
    if (path.endsWith(".css")) return "text/css";
    if (path.endsWith(".wasm")) return "application/wasm";
    return "application/octet-stream";
  }
}
