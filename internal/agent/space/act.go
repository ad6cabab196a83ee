package space

import (
	"context"

	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	decide "github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// act carries out a step of this host.
func (a *Agent) act(ctx context.Context, f decide.Facts, v decide.Verdict) error {
	client, err := a.Own(controlPlanes(a.View().Nodes.Value)[f.Self])
	if err != nil {
		return err
	}
	switch v.Step {
	case decide.Defragment:
		return a.defragment(ctx, f, client)
	case decide.MoveLeader:
		return client.MoveLeader(ctx, v.To)
	case decide.Compact:
		return client.Compact(ctx, v.Revision)
	case decide.Disarm:
		return client.DisarmNoSpace(ctx, f.Raised())
	case decide.None:
	}
	return nil
}

// defragment writes down that it begins, before it does: the failure that this process may not
// live to note, and the end until which the keeper waits for etcd. After a failure nobody knows
// whether etcd still is at it, for it goes on without its caller: the note stays until its end.
func (a *Agent) defragment(ctx context.Context, f decide.Facts, client Etcd) error {
	var own decide.Member
	for _, m := range f.Members.Value {
		if m.Name == f.Self {
			own = m
		}
	}
	limit := etcdhealth.DefragmentLimit(own.Size)
	runs := decide.Verdict{Step: decide.Defragment, Host: f.Self, Rule: decide.Begun, Why: "it runs"}
	a.begins(ctx, f, runs)
	a.journal = a.journal.Begin(f.Uptime)
	if err := a.note(f, runs); err != nil {
		return err
	}
	began, err := a.Uptime()
	if err != nil {
		return err
	}
	if err := a.Note(state.EtcdDefragmentation{Began: began, Until: began + limit}); err != nil {
		return err
	}
	timed, stop := context.WithTimeout(ctx, limit)
	defer stop()
	failure := client.Defragment(timed)
	ended, err := a.Uptime()
	if err != nil {
		ended = began + limit
	}
	a.journal = a.journal.End(ended, failure)
	if failure != nil {
		return failure
	}
	a.journal.Done = decide.Done{At: a.Now().UTC().Round(0), Before: own.Size, After: a.sizeNow(ctx, f), Took: ended - began}
	return a.RemoveNote()
}

// begins tells the person who asked. Nobody else waits for it, and what was decided is not to grow
// old meanwhile.
func (a *Agent) begins(ctx context.Context, f decide.Facts, runs decide.Verdict) {
	if a.wish == "" {
		return
	}
	ctx, stop := context.WithTimeout(ctx, beginTells)
	defer stop()
	_ = a.publish(ctx, a.found(f, runs).Summary) // an API that is away keeps nothing from being done
}

// sizeNow returns the size of the member of this host, zero if it does not say it.
func (a *Agent) sizeNow(ctx context.Context, f decide.Facts) int64 {
	ctx, stop := context.WithTimeout(ctx, looks)
	defer stop()
	return a.Members(ctx, map[string]string{f.Self: controlPlanes(a.View().Nodes.Value)[f.Self]})[f.Self].Size
}
