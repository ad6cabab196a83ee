package keeper

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheMembershipIsToldAtOnceAndOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{}
		ask := func(known string) *httptest.ResponseRecorder {
			answer := httptest.NewRecorder()
			path := "/" + keeperclient.MembershipPath + "?" + url.Values{keeperclient.MarkParameter: {known}}.Encode()
			d.handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			return answer
		}
		if a := ask(""); a.Code != http.StatusServiceUnavailable {
			t.Errorf("nobody watches yet: %d", a.Code)
		}
		first := state.Known(state.Membership{Ring: 7, Members: []string{"cp-1", "cp-2"}, Quorate: true})
		d.members.set(first)
		began := time.Now()
		if a := ask(""); !strings.Contains(a.Body.String(), `"ring":7`) || time.Since(began) > 0 {
			t.Errorf("the first: %s after %s", a.Body, time.Since(began))
		}
		if a := ask(keeperclient.MembershipMark(first)); !strings.Contains(a.Body.String(), `"ring":7`) || time.Since(began) != memberBeat {
			t.Errorf("without a change: %s after %s", a.Body, time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(300*time.Millisecond, func() { d.members.set(first) })
		time.AfterFunc(500*time.Millisecond, func() { d.members.set(state.Fact[state.Membership]{}) })
		if a := ask(keeperclient.MembershipMark(first)); strings.Contains(a.Body.String(), "ring\":7") || time.Since(began) != 500*time.Millisecond {
			t.Errorf("unknown: %s after %s", a.Body, time.Since(began))
		}
	})
}
