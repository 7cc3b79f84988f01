package otcadapter

import (
	"net/http"

	"github.com/fairwayhq/fairway/internal/wire"
)

// A kept answer is a response that can be written several times.
type kept struct {
	reply
	body     []byte
	replayed bool // it is the response to an earlier request
}

// refuse converts a fault into a response.
func (c *call) refuse(f *fault) *kept {
	body, rep := c.refused(nil, f)
	return &kept{reply: rep, body: body}
}

// again converts the response to another request for the same call into the response to this
// one. It returns nil if that is not possible and the call may run once more.
func (c *call) again(answer *kept) *kept {
	other := answer.reply.again && formOf(answer.body) != c.form
	body := c.recast(answer.body)
	if other || body == nil {
		return nil
	}
	repeated := *answer
	repeated.body, repeated.replayed = body, true
	return &repeated
}

// otherContent rejects a call_id that was used with other content. Its status is 400, because
// the standard does not define 409.
func (c *call) otherContent() *kept {
	return c.refuse(&fault{
		status: http.StatusBadRequest,
		message: "the call_id " + quoted(c.callID) + " belongs to a call with another tool, input or context, or, as long as nobody is authenticated here, with other cookies; " +
			"a new call needs a call_id of its own, and a repeated one must be the same",
	})
}

// replay returns the response in the record.
func (c *call) replay(r *record) *kept {
	if r.state == recordUnkept && unkeptReason(r.answer) == unkeptCredentials {
		return c.lost("this call ran and was answered, but its answer repeated credentials of the call, so it was not kept for a repetition",
			"The call has been carried out: do not repeat it. Look at the present state with another tool.")
	}
	if r.state == recordUnkept {
		return c.lost("this call ran and was answered, but its answer was too large to be kept for a repetition",
			"The call has been carried out: do not repeat it. Read what you need with another tool, or ask for less under another call_id.")
	}
	if answer := c.again(&kept{reply: reply{status: r.status}, body: r.answer}); answer != nil {
		return answer
	}
	return c.lost("this call ran and was answered, but the answer that was kept of it cannot be read",
		"The call has been carried out: do not repeat it. Look at the present state with another tool.")
}

// died reports a call whose node died or could not store the response.
func (c *call) died() *kept {
	return c.lost("this call was begun and never finished, as far as is recorded: the gateway that ran it stopped or lost its store, and it is not known whether it had an effect",
		"Do not repeat the call before you have looked at the present state with another tool. If it had no effect, call again under another call_id.")
}

// lost responds to a call whose response is not available.
func (c *call) lost(message, prompt string) *kept {
	b := c.appendStart(nil)
	b = append(b, `,"success":false,`...)
	if !c.form.oxp {
		b = append(b, `"output":{`...)
	}
	b = append(b, `"error":{"message":`...)
	b = wire.AppendString(b, message)
	b = append(b, `,"can_retry":false,"additional_prompt_content":`...)
	b = wire.AppendString(b, prompt)
	return &kept{reply: reply{status: http.StatusOK}, body: append(b, "}}}"...)}
}
