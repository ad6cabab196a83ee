package keeper

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/observe/member"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestEvidenceThatCannotBeReadInTimeIsUnknown: the disk may hang. Each peer's is read by
// itself.
func TestEvidenceThatCannotBeReadInTimeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := limited(member.Sources{Fenced: func(peer string) (state.Fact[state.EtcdFenced], error) {
			if peer == "beta" {
				<-release
			}
			return state.Known(state.EtcdFenced{State: state.PowerOff}), nil
		}})
		began := time.Now()
		if _, err := s.Fenced("beta"); err == nil || time.Since(began) != fileTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if got, err := s.Fenced("gamma"); err != nil || !got.Known {
			t.Errorf("another peer's: %+v, %v", got, err)
		}
		close(release)
		synctest.Wait()
		if got, err := s.Fenced("beta"); err != nil || !got.Known {
			t.Errorf("once the disk answers: %+v, %v", got, err)
		}
	})
}

func TestAnExaminationOfTheDataEndsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(member.Sources{Inspect: func(ctx context.Context) (state.EtcdData, error) {
			<-ctx.Done()
			return state.EtcdData{}, context.Cause(ctx)
		}})
		began := time.Now()
		if _, err := s.Inspect(t.Context()); err == nil || err.Error() != "examining etcd's data took longer than 30s" || time.Since(began) != inspectTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestAStopOfKubeletsEtcdIsAnsweredWithSuccess: nothing of ours runs, and an answer
// without a body would be none.
func TestAStopOfKubeletsEtcdIsAnsweredWithSuccess(t *testing.T) {
	s := begin(t, nil)
	if a := s.order(t, "start", pairText); a.Code != 0 {
		t.Fatalf("%+v", a)
	}
	k := s.keeper()
	w := &world{record: pairRecord(), peer: peerPair(), foreign: true}
	k.Process = newKeeper(t, w, state.EtcdStarted).Process
	answer := httptest.NewRecorder()
	s.stop(answer, httptest.NewRequest(http.MethodPost, "/stop", http.NoBody))
	if answer.Body.String() != "{\"code\":0}\n" && answer.Body.String() != "{}\n" {
		t.Errorf("%q", answer.Body.String())
	}
	if got := k.Wish().Wish; got != state.EtcdStopped {
		t.Errorf("Pacemaker's wish is %s", got)
	}
}

func TestTheWordsOfAStandInsResult(t *testing.T) {
	for want, r := range map[string]etcd.StandInResult{
		"voted":                                    {Outcome: "voted"},
		"refused, behind: at 5, not 9":             {Outcome: "refused", Reason: "behind", Detail: "at 5, not 9"},
		"voted; writes worked after 13ms":          {Outcome: "voted", MS: map[string]float64{"committing": 12.6}},
		"voted, why: more; writes worked after 1s": {Outcome: "voted", Reason: "why", Detail: "more", MS: map[string]float64{"committing": 1000, "x": 1}},
	} {
		if got := describe(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
