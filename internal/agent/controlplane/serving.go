package controlplane

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/admission"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/joining"
)

// servingInterval is the pause between two looks at the requests of kubelets that
// serve, beside the watch: a watch that hangs keeps no host without logs.
const servingInterval = 30 * time.Second

// servingTask decides about the certificates by which kubelets serve: whenever a
// watch tells of a request, and every half minute.
func (r *Agent) servingTask(open func() (*kube.Client, error)) (loop.Task, loop.Watch) {
	changed := loop.NewKick()
	servings := &admission.Servings{Reserved: r.reserved, Logf: r.logf}
	task := loop.Task{Name: "serving certificates", Wake: changed, First: servingInterval, Every: servingInterval, Retry: retryInterval, Limit: manyRequests, NotYet: notSetUp, Step: func(ctx context.Context) (loop.Result, error) {
		client, err := open()
		if err != nil {
			return loop.Result{}, err
		}
		return loop.Result{}, servings.Decide(ctx, client)
	}}
	watch := loop.Watch{Name: "watch of serving certificates", Pause: retryInterval, NotYet: notSetUp, Run: func(ctx context.Context, works func()) error {
		client, err := open()
		if err != nil {
			return err
		}
		return client.FollowRequests(ctx, joining.ServingSigner, func(list []joining.Request) {
			works()
			if slices.ContainsFunc(list, undecided) {
				changed.Kick()
			}
		})
	}}
	return task, watch
}

func undecided(r joining.Request) bool {
	_, ours := joining.ServesFor(r)
	return ours
}

// reserved returns the names and addresses that are no host's: those of the
// configuration, and the virtual IPs that the site has now.
func (r *Agent) reserved() joining.Reserved {
	out := joining.ReservedOf(r.Site.Config)
	if r.VIPs != nil {
		out.VIPs = append(out.VIPs, r.VIPs()...)
	}
	return out
}
