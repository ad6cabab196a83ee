package leafcert_test

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatANodeSaysOfARenewalThatWaits: the reason, since when any of them, and nothing once it waits
// no longer. What is not known is not changed.
func TestWhatANodeSaysOfARenewalThatWaits(t *testing.T) {
	now := time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
	before := now.Add(-time.Hour)
	plane := func(name string, ready bool, says state.CertificateRenewal) state.Node {
		return state.Node{Name: name, Ready: ready, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{state.AnnotationRenewal: state.FormatAnnotation(says)}}
	}
	host := func(ready bool, says state.CertificateRenewal) leafcert.Host {
		return leafcert.Host{Name: "cp-1", Now: now, ControlPlanes: 3, Cluster: state.Known(leafcert.Cluster{Nodes: []state.Node{plane("cp-1", true, says), plane("cp-2", ready, state.CertificateRenewal{}), plane("cp-3", true, state.CertificateRenewal{})}})}
	}
	const away = "not ready: cp-2"
	unknown := host(false, state.CertificateRenewal{})
	unknown.Cluster = state.Fact[leafcert.Cluster]{}
	for sentence, c := range map[string]struct {
		host    leafcert.Host
		kind    leafcert.Kind
		want    state.CertificateRenewal
		changes bool
		known   bool
	}{
		"it begins to wait":               {host(false, state.CertificateRenewal{}), leafcert.Wait, state.CertificateRenewal{Waits: away, WaitsSince: now}, true, true},
		"it waits still":                  {host(false, state.CertificateRenewal{Waits: away, WaitsSince: before}), leafcert.Wait, state.CertificateRenewal{Waits: away, WaitsSince: before}, false, true},
		"it waits for something else":     {host(false, state.CertificateRenewal{Waits: "x", WaitsSince: before}), leafcert.Wait, state.CertificateRenewal{Waits: away, WaitsSince: before}, true, true},
		"another host has its turn alone": {host(true, state.CertificateRenewal{}), leafcert.Wait, state.CertificateRenewal{}, false, true},
		"it waits no longer":              {host(true, state.CertificateRenewal{Waits: away, WaitsSince: before}), leafcert.None, state.CertificateRenewal{}, true, true},
		"it keeps its turn":               {host(true, state.CertificateRenewal{Since: before}), leafcert.Wait, state.CertificateRenewal{Since: before}, false, true},
		"it takes its turn":               {host(true, state.CertificateRenewal{Waits: away, WaitsSince: before}), leafcert.Take, state.CertificateRenewal{}, false, false},
		"the API does not answer":         {unknown, leafcert.Wait, state.CertificateRenewal{}, false, false},
	} {
		next, changes, known := c.host.Saying(leafcert.Step{Kind: c.kind, Why: "words"})
		if next != c.want || changes != c.changes || known != c.known {
			t.Errorf("%s: %+v, changes %v, known %v", sentence, next, changes, known)
		}
	}
}
