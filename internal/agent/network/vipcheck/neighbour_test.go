package vipcheck

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
)

func TestWhoAnswersIsFoundByARPAndByNeighbourDiscovery(t *testing.T) {
	netnstest.Pair(t, []string{"10.98.0.11/24", "fd98::11/64"}, []string{"10.98.0.6/24", "fd98::6/64"})
	c := &cluster{annotations: map[string]string{}}
	p := New(Options{Annotate: c.annotate, Holders: observe.Holders})
	c.ask("operator", "1", "fd98::5", "fd98::6", "10.98.0.6", "10.98.0.7")
	v := c.view("10.98.0.5")
	v.Addresses = v.Addresses[:2]
	reconcile(t, p, v)
	got := c.answer("operator")
	if !strings.HasPrefix(got, `{"id":"1","free":["10.98.0.7","fd98::5"],"held":{"10.98.0.6":"`) || strings.Contains(got, "unknown") ||
		strings.Count(got, ":\"") != 3 {
		t.Errorf("it answers %s", got)
	}
}
