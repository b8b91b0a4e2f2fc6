// The package in a WKWebView: page, engine and model lie in the app's bundle (a folder reference "page"
// with index.html, page.js, chat.bq4, bq4/dist and bq4/build/wasm) and are answered for from there under
// a scheme of the app's own, so that the page has workers and WebAssembly. Without cross-origin isolation
// the engine computes with one thread.
#import <UIKit/UIKit.h>
#import <WebKit/WebKit.h>

static NSString *const Scheme = @"bq4";

@interface PageFiles : NSObject <WKURLSchemeHandler>
@end

@implementation PageFiles

static NSString *typeOf(NSString *name) {
  NSDictionary *types = @{@"html" : @"text/html", @"js" : @"text/javascript", @"css" : @"text/css",
                          @"wasm" : @"application/wasm"};
  return types[name.pathExtension] ?: @"application/octet-stream";
}

- (void)webView:(WKWebView *)view startURLSchemeTask:(id<WKURLSchemeTask>)task {
  NSURL *url = task.request.URL;
  NSString *root = [NSBundle.mainBundle pathForResource:@"page" ofType:nil];
  // Nothing above the folder: `..` is gone from what is standardized.
  NSString *path = [root stringByAppendingPathComponent:url.path.stringByStandardizingPath];
  NSData *body = [NSData dataWithContentsOfFile:path options:NSDataReadingMappedIfSafe error:nil];
  NSDictionary *headers = @{@"Content-Type" : typeOf(path),
                            @"Content-Length" : @(body.length).stringValue};
  [task didReceiveResponse:[[NSHTTPURLResponse alloc] initWithURL:url
                                                       statusCode:body ? 200 : 404
                                                      HTTPVersion:@"HTTP/1.1"
                                                     headerFields:headers]];
  [task didReceiveData:body ?: NSData.data];
  [task didFinish];
}

- (void)webView:(WKWebView *)view stopURLSchemeTask:(id<WKURLSchemeTask>)task {
}

@end

@interface ViewController : UIViewController
@end

@implementation ViewController

- (void)loadView {
  WKWebViewConfiguration *configuration = [WKWebViewConfiguration new];
  [configuration setURLSchemeHandler:[PageFiles new] forURLScheme:Scheme];
  WKWebView *view = [[WKWebView alloc] initWithFrame:CGRectZero configuration:configuration];
  NSString *address = [Scheme stringByAppendingString:@"://app/index.html"];
  [view loadRequest:[NSURLRequest requestWithURL:[NSURL URLWithString:address]]];
  self.view = view;
}

@end
