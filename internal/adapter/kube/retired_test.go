package kube

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/holdfast/holdfast/internal/model/retired"
)

func TestTheListOfRetiredHostsIsWrittenByHostAndClosedByName(t *testing.T) {
	c, now := &Client{set: fake.NewClientset()}, time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)
	if list, err := c.Retired(t.Context(), "w-1"); err != nil || len(list) != 0 {
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
	one, err := c.Retired(t.Context(), "w-1")
	two, errTwo := c.Retired(t.Context(), "w-2")
	if err != nil || errTwo != nil || len(one) != 1 || one[0].Open() || one[0].UID != "u" || len(two) != 1 || !two[0].Open() {
		t.Errorf("%+v, %v; %+v, %v", one, err, two, errTwo)
	}
	broken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: retired.ConfigMap}, Data: map[string]string{"w-3": "{"}}
	if _, err := c.set.CoreV1().ConfigMaps(retired.Namespace).Update(t.Context(), broken, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Retired(t.Context(), "w-3"); err == nil {
		t.Error("an entry that cannot be read is taken for none")
	}
	if list, err := c.Retired(t.Context(), "w-1"); err != nil || len(list) != 0 {
		t.Errorf("the entry of another host is in the way: %v, %v", list, err)
	}
}
