package upgrade

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestAnOperatorIsReadyOnlyWhileItsLooksEndWell: one that does nothing counts as one that does not
// start.
func TestAnOperatorIsReadyOnlyWhileItsLooksEndWell(t *testing.T) {
	w := newWorld(t, 2, 0)
	r := w.r
	now := w.now
	r.Now = func() time.Time { return now }
	is := func(what, want string) {
		t.Helper()
		if err := r.Works(nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	is("before the first look", "no look at the site has ended well yet")
	look := func() error {
		_, err := r.Reconcile(t.Context(), reconcile.Request{})
		return err
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	is("after it", "")
	now = now.Add(idleLimit)
	is("ten minutes later", "")
	now = now.Add(time.Second)
	is("and one second", "the last look at the site that ended well is of")
	live := r.Live
	r.Live = interceptor.NewClient(w.own, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("it does not answer")
	}})
	if err := look(); err == nil {
		t.Fatal("it reads a cluster that cannot be read")
	}
	is("after one that failed", "the last look at the site that ended well is of")
	r.Live = live
	if err := look(); err != nil {
		t.Fatal(err)
	}
	is("after one that ended well", "")
}
