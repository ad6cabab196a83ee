package life_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// fills is how often an object of fillSize bytes is written over: etcd keeps each
	// revision until the API server compacts, every 5 minutes.
	fills    = 350
	fillSize = 900 << 10
	// smallerWithin has room for that compaction, for etcdspace.Settle after the last loss,
	// and for the turn of each member.
	smallerWithin = 25 * time.Minute
)

// TestEtcdGivesSpaceBack writes one object over until etcd has several hundred MiB, of
// which nothing counts. The hosts defragment their members by themselves, one after the
// other, while clients write. Nobody is fenced, and no acknowledged write is lost.
//
// It takes about 20 minutes.
func TestEtcdGivesSpaceBack(t *testing.T) {
	play(t, "space of etcd", func(tr *trial) {
		tr.fill()
		for _, m := range tr.freshSpace().Members {
			if m.Size < 2*etcdspace.LeastSize {
				tr.Fatalf("%s has %d MiB after %d writes of %d KiB, want at least %d", m.Name, m.Size>>20, fills, fillSize>>10, 2*etcdspace.LeastSize>>20)
			}
		}
		began := time.Now()
		tr.Eventually(smallerWithin, "every member is small again", func() error {
			var errs []error
			r := tr.freshSpace()
			for _, m := range r.Members {
				if m.Size > etcdspace.LeastSize {
					errs = append(errs, fmt.Errorf("%s has %d MiB, of which it uses %d", m.Name, m.Size>>20, m.InUse>>20))
				}
			}
			if v := r.Verdict; v.Step != etcdspace.None {
				errs = append(errs, fmt.Errorf("%s: %s", v.Rule, v.Why))
			}
			return errors.Join(errs...)
		})
		tr.Trial.Took("until every member is small", time.Since(began))
		tr.Noticed("meanwhile", began)
		tr.outages(began)
		if len(tr.ControlPlanes()) > 1 {
			tr.noWriteGapAbove(busyGap)
		}
		for _, h := range tr.ControlPlanes() {
			if j := tr.space(h).Journal; j.Last == 0 || j.Failed > 0 {
				tr.Errorf("%s tells of its defragmentations: %+v, want one that succeeded", h, j)
			}
		}
		tr.nobodyFenced()
	})
}

// fill writes an object over. Its bytes are random, so nothing makes them smaller.
func (tr *trial) fill() {
	tr.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fills-etcd", Namespace: metav1.NamespaceDefault}}
	tr.Cleanup(func() { tr.Remove(tr.T, object.DeepCopy()) })
	data := make([]byte, fillSize)
	began := time.Now()
	for range fills {
		_, _ = rand.Read(data) // it never fails
		tr.Eventually(time.Minute, "the object is written", func() error {
			now := object.DeepCopy()
			now.BinaryData = map[string][]byte{"data": data}
			err := tr.API.Update(tr.Context(), now)
			if apierrors.IsNotFound(err) {
				return tr.API.Create(tr.Context(), now)
			}
			return err
		})
	}
	tr.Trial.Took("filling", time.Since(began))
}

// space returns what the agent of a host says about the space of etcd.
func (tr *trial) space(host string) (r etcdspace.Report) {
	tr.Helper()
	if err := json.Unmarshal([]byte(tr.On(host, "cat "+state.EtcdSpacePath)), &r); err != nil {
		tr.Fatal(err)
	}
	return r
}

// freshSpace returns what the first host says of all members, once its report is younger
// than the call.
func (tr *trial) freshSpace() (r etcdspace.Report) {
	tr.Helper()
	asked := tr.Now()
	tr.Eventually(2*time.Minute, "a host tells how large etcd is", func() error {
		r = tr.space(tr.ControlPlanes()[0])
		if r.At.Before(asked) || len(r.Members) != len(tr.ControlPlanes()) {
			return fmt.Errorf("the report is of %s and has %d members", r.At.UTC().Format(time.TimeOnly), len(r.Members))
		}
		return nil
	})
	return r
}
