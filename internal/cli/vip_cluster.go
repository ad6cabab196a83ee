package cli

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/vips"
)

// askLimit bounds the question to the hosts who answers for an address.
const askLimit = 20 * time.Second

// vipEvery is the pause between two readings of the cluster.
const vipEvery = 250 * time.Millisecond

// judge decides about a spec that is not written yet. To do so it asks the
// hosts who answers for the new addresses, and removes the question afterwards.
func (c *vipCluster) judge(ctx context.Context, spec vips.Values, decide func(vips.Snapshot) vips.Decision) (d vips.Decision, err error) {
	limit, stop := context.WithTimeout(ctx, min(askLimit, c.timeout))
	defer stop()
	defer func() { err = errors.Join(err, c.takeBack(ctx)) }()
	for asked := false; ; {
		s, _, err := c.gather(limit)
		if err != nil {
			return d, err
		}
		s.Spec = spec
		d = decide(s)
		probing := vips.Probe(d.Unasked(), s.Hosts, c.now())
		s.Found = probing.Found
		d = decide(s)
		if len(d.Unasked()) == 0 {
			return d, nil
		}
		for _, node := range probing.Ask {
			if err := vipobject.WriteProbe(limit, c.client, node, c.asker, &probing.Request); err != nil {
				return d, err
			}
		}
		if !asked && len(probing.Ask) > 0 {
			asked = true
			c.logf("asking %v whether any machine answers for %v", probing.Ask, d.Added)
		}
		if host.Sleep(limit, vipEvery) != nil {
			return d, ctx.Err() // the decision names what is unknown
		}
	}
}

// takeBack removes the questions of this run, even after an interrupt.
func (c *vipCluster) takeBack(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
	defer stop()
	s, _, err := c.gather(ctx)
	if err != nil {
		return err
	}
	for _, node := range vips.Probe(nil, s.Hosts, c.now()).Clear {
		if err := vipobject.WriteProbe(ctx, c.client, node, c.asker, nil); err != nil {
			return err
		}
	}
	return nil
}

// write writes the target state into the spec, unless somebody changed the spec
// meanwhile.
func (c *vipCluster) write(ctx context.Context, spec vips.Values) error {
	infra, _, err := vipobject.Gather(ctx, c.client, c.asker)
	if err != nil {
		return err
	}
	return vipobject.WriteSpec(ctx, c.client, infra, spec)
}

// errRefused reports a change that the operator refused although it was valid
// here: something changed in between.
var errRefused = errors.New("holdfast-operator refused the change")

// follow waits until the operator reports that the change is complete, and
// prints each change of the progress.
func (c *vipCluster) follow(ctx context.Context, spec vips.Values) (vipobject.Report, error) {
	ctx, stop := context.WithTimeoutCause(ctx, c.timeout, coded(command.ExitRecovers,
		"not complete after %s; it continues by itself, and 'holdfast vip check' shows the progress", c.timeout))
	defer stop()
	said := ""
	for {
		s, report, err := c.gather(ctx)
		if err == nil {
			done, words, failed := vipProgress(s, *report, spec)
			if words != said && words != "" {
				said = words
				c.logf("%s", words)
			}
			if done || failed != nil {
				return *report, failed
			}
		}
		if host.Sleep(ctx, vipEvery) != nil {
			return vipobject.Report{}, errors.Join(context.Cause(ctx), err)
		}
	}
}

// vipProgress returns how far the cluster has applied a spec, according to its
// objects.
func vipProgress(s vips.Snapshot, r vipobject.Report, spec vips.Values) (done bool, words string, err error) {
	accepted := vipCondition(r, vips.ConditionAccepted)
	if accepted.Status == vips.False && s.Spec.Equal(spec) {
		return false, "", coded(command.ExitRefused, "%w: %s", errRefused, accepted.Message)
	}
	s.Spec = spec
	if vips.Decide(s).Outcome != vips.Settled {
		return false, "waiting for holdfast-operator: " + accepted.Message, nil
	}
	plan := vips.PlanOf(s.Status, s.UserManaged)
	if !vips.SameSet(r.Extension.Applied, plan.All()) {
		return false, r.Extension.Words(), nil
	}
	return true, "", nil
}

func vipCondition(r vipobject.Report, kind string) vips.Condition {
	for _, c := range r.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return vips.Condition{Type: kind, Status: vips.Unknown, Message: "no report yet"}
}
