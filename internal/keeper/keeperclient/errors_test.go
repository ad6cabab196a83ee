package keeperclient

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheMembershipIsAskedForByTheMarkThatIsKnown(t *testing.T) {
	two := state.Known(state.Membership{Ring: 7, Members: []string{"alpha", "beta"}})
	socket := daemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/membership" || r.URL.Query().Get(MarkParameter) != MembershipMark(state.Fact[state.Membership]{}) {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(two)
	})
	got, err := Membership(t.Context(), socket, MembershipMark(state.Fact[state.Membership]{}))
	if err != nil || MembershipMark(got) != MembershipMark(two) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAnotherMembershipHasAnotherMark(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range []state.Fact[state.Membership]{
		{}, state.Known(state.Membership{}), state.Known(state.Membership{Ring: 7}), state.Known(state.Membership{Ring: 7, Members: []string{"alpha"}}),
	} {
		seen[MembershipMark(m)] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d marks of four memberships", len(seen))
	}
}

func TestAnAnswerThatIsNoneIsTold(t *testing.T) {
	var out map[string]string
	refuses := daemon(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{}`)
	})
	if err := Send(t.Context(), refuses, "stop", nil, &out); err == nil || err.Error() != "the etcd keeper answered 503 Service Unavailable" {
		t.Errorf("%v", err)
	}
	cuts := daemon(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{}`)
	})
	if err := Send(t.Context(), cuts, "stop", nil, &out); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
	if err := Send(t.Context(), cuts, "%", nil, &out); err == nil {
		t.Error("a request that is none was sent")
	}
	babbles := daemon(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `[`) })
	err := Send(t.Context(), babbles, "stop", nil, &out)
	if err == nil || !strings.HasPrefix(err.Error(), "the answer of the etcd keeper cannot be decoded (another version?): ") {
		t.Errorf("%v", err)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); !ok {
		t.Errorf("the decoder's error is lost: %v", err)
	}
}
