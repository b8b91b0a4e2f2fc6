// The package in a WKWebView. Page, engine and model are in the app's bundle: a folder reference "page"
// with index.html, page.js, chat.bq4, bq4/dist and bq4/build/wasm. Requests for them have a URL scheme of
// the app, so that the page can use workers and WebAssembly. Without cross-origin isolation the engine
// computes with one thread.
#import <UIKit/UIKit.h>
#import <WebKit/WebKit.h>

static NSString *const Scheme = @"bq4";

/** Responds to requests of the page with files of the folder "page". */
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
  // A standardized absolute path has no `..`, so it is inside the folder.
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
