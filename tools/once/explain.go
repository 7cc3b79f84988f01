package once

import (
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools"
)

// An Explanation says why there is no response to a call.
type Explanation struct {
	Kind       tools.FailureKind
	Message    string
	Advice     string        // what the model should do
	RetryAfter time.Duration // if the same call can be repeated
}

// Explain explains an outcome without a Response. Key is what the protocol calls the key.
func (o Outcome) Explain(key string) Explanation {
	const doNotRepeat = "The call has been carried out: do not repeat it. Check the current state with another tool."
	switch o {
	case Conflict:
		return Explanation{Kind: tools.KeyConflict, Advice: "Use a new " + key + " for a new call.", Message: "the " + key +
			" belongs to another call: with another tool, input or context, or with other cookies of an unauthenticated caller"}
	case InFlight:
		return Explanation{
			Kind: tools.KeyInFlight, RetryAfter: RetryAfter, Message: "a call with the same " + key + " is still in progress",
			Advice: "Repeat the call later with the same " + key + " to get its result.",
		}
	case Unavailable:
		return Explanation{
			Kind: tools.KeyUnavailable, RetryAfter: RetryAfter, Advice: "Try again later with the same " + key + ".",
			Message: "the call was not run, because calls with a " + key + " cannot be recorded at the moment",
		}
	case NoShare:
		return Explanation{
			Kind: tools.KeyUnavailable, RetryAfter: time.Minute, Advice: "Try again later with the same " + key + ".",
			Message: "the call was not run: " + store.ShareUsed,
		}
	case Unfinished:
		return Explanation{
			Kind:    tools.KeyUnknown,
			Message: "this call was started but not finished: the gateway that ran it stopped or lost its store, so it is unknown whether the call had an effect",
			Advice:  "Do not repeat the call before you have checked the current state with another tool. If it had no effect, call again with a new " + key + ".",
		}
	case TooLarge:
		return Explanation{
			Kind: tools.KeyUnknown, Message: "this call has already run; its response was too large to be stored",
			Advice: "The call has been carried out: do not repeat it. Read what you need with another tool, or request less with a new " + key + ".",
		}
	case Dropped:
		return Explanation{Kind: tools.KeyUnknown, Message: "this call has already run; its stored response was dropped to make room for others", Advice: doNotRepeat}
	case HadCredentials:
		return Explanation{Kind: tools.KeyUnknown, Message: "this call has already run; its response contained credentials of the call, so it was not stored", Advice: doNotRepeat}
	}
	return Explanation{Kind: tools.KeyUnknown, Message: "this call has already run; its stored response cannot be read", Advice: doNotRepeat}
}
