package pacemakerstatus

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
)

var (
	failoverWanted = metric.Describe("failover_requests", "Requests of the pods that this control plane would run if the other one were lost: cores, bytes, pods. Reported by the host that writes the status.", "host", "resource")
	failoverGiven  = metric.Describe("failover_allocatable", "What this control plane can allocate to pods: cores, bytes, pods. Reported by the host that writes the status.", "host", "resource")
)

var aboutFailover = []*prometheus.Desc{failoverWanted, failoverGiven}

// The one host that writes the status anyway also reads all pods, once in
// countLoad.
const (
	countLoad     = 5 * time.Minute
	countAgain    = 30 * time.Second // if this host does not write, or no API server answered
	countPatience = 30 * time.Second
)

// keepFailover counts what each host would have to run without the other, until
// the context ends. It publishes nothing that it could not count.
func (c *Collector) keepFailover(ctx context.Context) {
	for next := countAgain; host.Sleep(ctx, next) == nil; {
		var counted []clusterhealth.Failover
		next = countAgain
		if c.Report().Writes {
			if f, err := c.count(ctx); err == nil {
				counted, next = f, countLoad
			}
		}
		c.mu.Lock()
		c.failover = counted
		c.mu.Unlock()
	}
}

func (c *Collector) count(ctx context.Context) (out []clusterhealth.Failover, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, countPatience, errors.New("no API server lists all pods in time"))
	defer cancel()
	err = c.api(ctx, func(ctx context.Context, a api) error {
		var load clusterhealth.Load
		nodes, err := a.EachPod(ctx, load.Add)
		if err == nil {
			out = load.Failovers(nodes)
		}
		return err
	})
	return out, err
}

func (c *Collector) collectFailover(out metric.Send) {
	c.mu.Lock()
	failover := c.failover
	c.mu.Unlock()
	for _, f := range failover {
		out.Gauge(failoverWanted, f.Requested, f.Host, f.Resource)
		out.Gauge(failoverGiven, f.Allocatable, f.Host, f.Resource)
	}
}
