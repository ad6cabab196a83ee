package pacemakerstatus

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/agent/loop"
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
	countLimit    = time.Minute
)

// failoverTask counts what each host would have to run without the other. What
// cannot be counted is not told.
func (c *Collector) failoverTask() loop.Task {
	return loop.Task{
		Name: "failover capacity", First: countAgain, Every: countAgain, Limit: countLimit, NotYet: isNoAccess,
		Step: func(ctx context.Context) (loop.Result, error) {
			var out loop.Result
			var counted []clusterhealth.Failover
			var err error
			if c.Report().Writes {
				if counted, err = c.count(ctx); err == nil {
					out.Again = countLoad
				}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failover = counted
			return out, err
		},
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
