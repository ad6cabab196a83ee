package pacemakerstatus

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// wanted returns the cores that a host would have to give, or 0 if that was not
// counted.
func (c *Collector) wanted(host string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.failover {
		if f.Host == host && f.Resource == "cpu" {
			return f.Requested
		}
	}
	return 0
}

func TestFailoverCapacityIsCountedByTheHostThatWrites(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		two := make(corev1.ResourceList)
		two[corev1.ResourceCPU] = resource.MustParse("2")
		for _, name := range []string{"cp-1", "cp-2"} {
			c.api.nodes = append(c.api.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{state.LabelControlPlane: ""}}})
			c.api.pods = append(c.api.pods, corev1.Pod{Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{
				{Resources: corev1.ResourceRequirements{Requests: two}},
			}}})
		}
		c.start("cp-1", dir)
		c.start("cp-2", dir)
		time.Sleep(time.Hour)
		synctest.Wait()
		if first, second := c.host["cp-1"].wanted("cp-2"), c.host["cp-2"].wanted("cp-2"); first != 4 || second != 0 {
			t.Errorf("the writer tells %v, the other one %v", first, second)
		}
		if n := c.api.counted; n < 11 || n > 13 {
			t.Errorf("all pods were read %d times in an hour", n)
		}
		c.api.mu.Lock()
		c.api.down = errors.New("connection refused")
		c.api.mu.Unlock()
		time.Sleep(countLoad + countAgain)
		synctest.Wait()
		if got := c.host["cp-1"].wanted("cp-2"); got != 0 {
			t.Errorf("without an API it still tells %v", got)
		}
		c.stop["cp-1"]()
		c.stop["cp-2"]()
	})
}
