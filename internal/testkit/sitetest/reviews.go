package sitetest

import (
	"encoding/json"
	"net/http"
)

// Reviews are the reviews of a site with a guarded API.
type Reviews struct{ site *Site }

// ReviewsOf returns the reviews of a site.
func ReviewsOf(s *Site) Reviews { return Reviews{s} }

// Ask makes a call that needs a review, and returns the id of the review.
func (r Reviews) Ask(to string) string {
	r.site.T.Helper()
	a := r.site.Request("POST", "/trips", `{"to":"`+to+`"}`, "X-Test-User", "ada")
	if p := r.site.Problem(a); p.Kind != "review_pending" || p.Review == "" {
		r.site.T.Fatalf("got %+v", p)
	}
	return r.site.Problem(a).Review
}

// DecideAll decides on all reviews.
func (r Reviews) DecideAll(decision string) { r.DecideAllAs("boss", decision) }

// DecideAllAs decides on all reviews of a reviewer.
func (r Reviews) DecideAllAs(reviewer, decision string) {
	r.site.T.Helper()
	var listed struct{ Reviews []struct{ ID string } }
	a := r.site.Request(http.MethodGet, "/reviews", "", "X-Test-User", reviewer)
	if err := json.Unmarshal([]byte(a.Body), &listed); err != nil || len(listed.Reviews) == 0 {
		r.site.T.Fatalf("reviews: %d %s", a.Status, a.Body)
	}
	for _, review := range listed.Reviews {
		if a := r.site.Request(http.MethodPost, "/reviews/"+review.ID, `{"decision":"`+decision+`"}`, "X-Test-User", reviewer); a.Status != http.StatusOK {
			r.site.T.Fatalf("decision: %d %s", a.Status, a.Body)
		}
	}
}
