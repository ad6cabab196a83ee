package install

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/sitetest"
)

// sink is a server that fails as long as it is told to.
type sink struct {
	got  []string
	fail atomic.Bool
}

func (s *sink) send(_ context.Context, data []byte) error {
	if s.fail.Load() {
		return errors.New("no answer")
	}
	s.got = append(s.got, string(data))
	return nil
}

func (s *sink) want(t *testing.T, what string, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, s.got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
	s.got = nil
}

func TestAReporterSendsTheNewestStateAndRepeatsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		r := newReporter(s.send)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.run(ctx)

		time.Sleep(2 * reportAgain)
		s.want(t, "before the first state")
		r.publish([]byte("one"))
		s.want(t, "a new state is sent at once", "one")
		time.Sleep(reportAgain + time.Second)
		s.want(t, "an unchanged state is sent again", "one")

		s.fail.Store(true)
		r.publish([]byte("two"))
		synctest.Wait()
		r.publish([]byte("three"))
		synctest.Wait()
		s.fail.Store(false)
		time.Sleep(retryAfter + time.Second)
		s.want(t, "after a failure only the newest counts", "three")
	})
}

func TestPublishingNeverWaitsForTheServer(t *testing.T) {
	r := newReporter(func(context.Context, []byte) error { return nil })
	for _, state := range []string{"one", "two", "three"} { // nobody reads
		r.publish([]byte(state))
	}
	if got := string(<-r.latest); got != "three" {
		t.Errorf("got %s", got)
	}
}

func TestTheLastStateIsTriedForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		r := newReporter(s.send)
		s.fail.Store(true)
		time.AfterFunc(10*time.Second, func() { s.fail.Store(false) })
		r.flush(t.Context(), []byte("complete"))
		s.want(t, "when the server is back", "complete")

		s.fail.Store(true)
		start := time.Now()
		r.flush(t.Context(), []byte("complete"))
		if took := time.Since(start); took != reportLast {
			t.Errorf("gave up after %s", took)
		}
	})
}

func TestProgressGoesToTheSitesOwnServerOnly(t *testing.T) {
	var request string
	status := http.StatusNoContent
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
		w.WriteHeader(status)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would tell of the refused handshake
	server.StartTLS()
	defer server.Close()

	s := sitetest.New(t, sitetest.TwoDual)
	s.Identity.JoinToken = "join-secret"
	to, err := newProgressServer(s, "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	if to.url != "https://10.98.0.5:22623/progress/cp-1" {
		t.Errorf("sent to %s", to.url)
	}
	to.url = server.URL + "/progress/cp-1"
	if err := to.send(t.Context(), []byte("{}")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server of another authority was told the secret: %v", err)
	}

	s.Identity.ConfigCA.Cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if to, err = newProgressServer(s, "cp-1"); err != nil {
		t.Fatal(err)
	}
	to.url = server.URL + "/progress/cp-1"
	if err := to.send(t.Context(), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if want := "POST /progress/cp-1 Bearer join-secret {}"; request != want {
		t.Errorf("got %s", request)
	}
	status = http.StatusForbidden
	if err := to.send(t.Context(), nil); err == nil || strings.Contains(err.Error(), "join-secret") {
		t.Errorf("a refusal: %v", err)
	}
}

func TestAnAuthorityThatIsNoneIsAnError(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	s.Identity.ConfigCA.Cert = "hush"
	if _, err := newProgressServer(s, "cp-1"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
}
