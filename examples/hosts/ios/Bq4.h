// A model in this process. Its methods are called from one thread at a time; not from the main thread,
// since they can take seconds. For Swift, import this file in the bridging header.
#import <Foundation/Foundation.h>

/** Receives the parts of a reply, in complete characters. */
@protocol Bq4Listener
/** Returns NO to stop the reply. */
- (BOOL)replyText:(NSString *)text;
@end

/** Domain of the engine's errors. `code` is a bq_status; the recovery suggestion is the hint. */
extern NSString *const Bq4ErrorDomain;

@interface Bq4 : NSObject {
 @private
  struct reply_model *model;
}
/** `file`: all bytes of a .bq4 file. `context`: number of positions; 0: the model's context length.
 * Returns nil after an error, with the reason in *error. */
- (instancetype)initWithFile:(NSData *)file context:(uint32_t)context error:(NSError **)error;

/** Continues a prompt, which contains the model's chat tokens, by at most `maxTokens` tokens.
 * Temperature 0 is greedy sampling. */
- (BOOL)replyTo:(NSString *)prompt
      maxTokens:(uint32_t)maxTokens
    temperature:(float)temperature
           seed:(uint64_t)seed
       listener:(id<Bq4Listener>)listener
          error:(NSError **)error;
@end
