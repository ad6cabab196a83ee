package kube

import (
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/holdfast/holdfast/internal/model/retired"
)

func TestTheListOfRetiredHostsIsWrittenByHostAndClosedByName(t *testing.T) {
	c, now := &Client{set: fake.NewClientset()}, time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)
	if list, err := c.Retired(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("without a list: %v, %v", list, err)
	}
	if err := c.GiveAgain(t.Context(), "w-1", now); err != nil {
		t.Errorf("a name that was never taken: %v", err)
	}
	for _, name := range []string{"w-1", "w-2"} {
		if err := c.Retire(t.Context(), retired.Host{Name: name, UID: "u", When: now}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing to close
		if err := c.GiveAgain(t.Context(), "w-1", now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.Retired(t.Context())
	one, _ := list.Of("w-1")
	two, _ := list.Of("w-2")
	if err != nil || one.Open() || one.UID != "u" || !two.Open() {
		t.Errorf("%+v, %v", list, err)
	}
}
