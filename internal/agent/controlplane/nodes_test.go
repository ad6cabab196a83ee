package controlplane

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/sitetest"
	"github.com/holdfast/holdfast/internal/state"
)

func TestOnlyTheNewestListOfNodesCounts(t *testing.T) {
	a := New(Options{Site: sitetest.New(t, sitetest.TwoDual), Log: io.Discard})
	for range 100 { // nobody takes them
		a.Nodes(nil)
	}
	a.Nodes([]state.Node{{Name: "cp-1"}})
	if got := <-a.nodes; len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestNothingIsAskedOfTheAPIWhereNothingIsToBeDone(t *testing.T) {
	a := New(Options{Site: sitetest.New(t, sitetest.ThreeV6), Log: io.Discard})
	a.facts.NodeName = "cp-1"
	labelled := state.Node{Name: "cp-1", Labels: map[string]string{}}
	for _, l := range noderole.Missing(map[string]string{state.LabelControlPlane: ""}, false) {
		labelled.Labels[l] = ""
	}
	labelled.Labels[state.LabelControlPlane] = ""
	if a.unlabelled([]state.Node{labelled}) || a.untold([]state.Node{labelled}) {
		t.Errorf("something is to be done for %+v", labelled)
	}
	if err := a.keepStep(t.Context(), []state.Node{labelled}); err != nil {
		t.Error(err)
	}
	if !a.unlabelled([]state.Node{{Name: "w-1", Labels: map[string]string{noderole.Claim: "worker"}}}) {
		t.Error("a node without labels is left alone")
	}
}

func TestWithoutAccessTheNodesAreLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Site: sitetest.New(t, sitetest.ThreeV6), Log: io.Discard})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.followNodes(ctx); close(done) }()
		a.Nodes([]state.Node{{Name: "w-1", Labels: map[string]string{noderole.Claim: "worker"}}})
		synctest.Wait()
		stop()
		<-done
	})
}
