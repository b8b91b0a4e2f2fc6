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
 * The package in a WebView. Page, engine and model are assets of the app. Requests for them have an
 * https: address, so that the page can use workers, WebAssembly and a cache. A WebView has no
 * cross-origin isolation, so the engine computes with one thread.
 */
public final class MainActivity extends Activity {
  /** An origin that Android reserves for assets: no server has this name. */
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
        return respond(path, getAssets().open(path));
      } catch (IOException error) {
        return new WebResourceResponse("text/plain", "utf-8", 404, "Not Found", headers(), null);
      }
    }
  }

  /** The response is the complete file, also to a request for a range; the engine accepts that. */
  private static WebResourceResponse respond(String path, InputStream body) {
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
