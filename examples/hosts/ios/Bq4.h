// A model in this process. One thread at a time; not the one that draws. Swift sees it by a bridging
// header that imports this.
#import <Foundation/Foundation.h>

/** Hears a reply as it comes, in whole characters. */
@protocol Bq4Listener
/** NO: enough. */
- (BOOL)replyText:(NSString *)text;
@end

/** Of the errors that come from the engine; `code` is a bq_status, and they say what to do. */
extern NSString *const Bq4ErrorDomain;

@interface Bq4 : NSObject {
 @private
  struct reply_model *model;
}
/** A .bq4 file, whole. `context`: positions; 0: the model's own. nil: *error says why. */
- (instancetype)initWithFile:(NSData *)file context:(uint32_t)context error:(NSError **)error;

/** Goes on from a prompt that has the model's chat tokens in it. temperature 0: the likeliest. */
- (BOOL)replyTo:(NSString *)prompt
           most:(uint32_t)most
    temperature:(float)temperature
           seed:(uint64_t)seed
       listener:(id<Bq4Listener>)listener
          error:(NSError **)error;
@end
