package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/removal"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
)

// planeMember takes the member of a lost control plane of three out of etcd.
type planeMember struct {
	here, typed string
	backup      backupFirst
	cluster     client.Client
	now         func() time.Time
	// members returns the members of etcd by this host, statuses asks those of hosts at addresses.
	members  func(context.Context) ([]state.EtcdMember, error)
	statuses func(ctx context.Context, addresses map[string]string) map[string]etcd.MemberStatus
	drop     func(context.Context, state.MemberID) error
}

// newPlaneMember returns that of this host, which must be a control plane.
func (w *workerReplacement) newPlaneMember() (*planeMember, error) {
	if os.Geteuid() != 0 {
		return nil, &UsageError{Err: errors.New("host replace of a control plane asks etcd by this host's own keys: run it with sudo on a control plane that stays")}
	}
	name, err := host.Name()
	if err != nil {
		return nil, err
	}
	local := func(do func(*etcd.Client) error) error {
		c, err := etcd.Open(etcd.Config{})
		if err != nil {
			return err
		}
		return errors.Join(do(c), c.Close())
	}
	all := &etcd.Members{Identity: etcd.Identity{CA: state.EtcdPKIDir + "/ca.crt", Cert: state.EtcdPKIDir + "/healthcheck-client.crt", Key: state.EtcdPKIDir + "/healthcheck-client.key"}}
	return &planeMember{
		here: name, typed: w.gone, cluster: w.old.cluster, now: time.Now, statuses: all.Statuses,
		backup: backupFirst{without: w.noBackup, take: takingBackup(place.Flags{}, w.streams, "", w.old.name, "before host replace"), out: w.streams.Err},
		members: func(ctx context.Context) (list []state.EtcdMember, err error) {
			err = local(func(c *etcd.Client) error {
				s, err := c.Status(ctx)
				list = s.Members
				return err
			})
			return list, err
		},
		drop: func(ctx context.Context, id state.MemberID) error {
			return local(func(c *etcd.Client) error { return c.RemoveMember(ctx, id) })
		},
	}, nil
}

// look gathers the facts about etcd and the other control planes.
func (m *planeMember) look(ctx context.Context, f removal.Facts) removal.Plane {
	p := removal.Plane{Here: m.here, Typed: m.typed}
	if list, err := m.members(ctx); err == nil {
		p.Members = state.Known(list)
	}
	addresses := map[string]string{}
	for _, n := range nodesOf(f) {
		if n.ControlPlane() && len(n.Addresses) > 0 {
			addresses[n.Name] = n.Addresses[0].String()
		}
	}
	for name, s := range m.statuses(ctx, addresses) {
		if s.Votes() {
			p.Votes = append(p.Votes, name)
		}
	}
	if work, err := planInForce(ctx, m.cluster); err == nil {
		p.Work = work
	}
	p.Upgrade = m.upgrade(ctx, f.Others).Retire
	p.Backup = m.lacksBackup(f)
	return p
}

// nodesOf returns the nodes of the site, of the host that goes too.
func nodesOf(f removal.Facts) (out []state.Node) {
	if f.Node != nil {
		out = append(out, kube.NodeOf(f.Node))
	}
	for i := range f.Others {
		out = append(out, kube.NodeOf(&f.Others[i]))
	}
	return out
}

// lacksBackup says why no backup is good enough; empty if one is, or if an administrator goes without.
// One that lies on the host that goes alone is none.
func (m *planeMember) lacksBackup(f removal.Facts) string {
	if m.backup.without {
		return ""
	}
	return backup.BeforeOf(nodesOf(f), m.now(), f.Name)
}

// upgrade says what the replacement waits for in an upgrade, by its record and by what the other
// control planes say. What cannot be read is unknown.
func (m *planeMember) upgrade(ctx context.Context, others []corev1.Node) hold.Lost {
	text := state.Known("")
	var record corev1.ConfigMap
	switch err := m.cluster.Get(ctx, client.ObjectKey{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}, &record); {
	case err == nil:
		text.Value = record.Data[annotation.RecordKey]
	case !apierrors.IsNotFound(err):
		text = state.Fact[string]{}
	}
	stay := map[string]state.Fact[annotation.Host]{}
	for i := range others {
		n := &others[i]
		if !survey.ControlPlane(n) {
			continue
		}
		said, err := annotation.Decode[annotation.Host](n.Annotations[annotation.HostOf])
		known := err == nil && n.Annotations[annotation.HostOf] != ""
		stay[n.Name] = state.Fact[annotation.Host]{Known: known, Value: said}
	}
	return hold.OfLostOfThree(text, stay)
}

// insteadOf has what the upgrade says of the place of a lost control plane in place of what it says of
// any host that is added: it waits for this one.
func (m *planeMember) insteadOf(ctx context.Context, r *hostRemoval, wanted *joining.Adding) error {
	f, err := r.gather(ctx)
	wanted.Upgrade, wanted.Waits = "", m.upgrade(ctx, f.Others).Install
	return err
}

func (m *planeMember) judge(ctx context.Context, f removal.Facts) ([]removal.Gate, removal.Step) {
	p := m.look(ctx, f)
	return removal.PlaneGates(f, p), removal.PlaneNext(f, p)
}

// votes waits until the new host votes.
func (w *workerReplacement) votes(ctx context.Context) error {
	says := "is a ready node, and waits to become a voter of etcd"
	return watch(ctx, w.streams.Err, w.left(), func(ctx context.Context) (looked, error) {
		ctx, stop := context.WithTimeout(ctx, lookLimit)
		defer stop()
		list, err := w.old.plane.members(ctx)
		if err != nil {
			return trouble(ctx, w.new.name, "etcd does not answer", err), nil
		}
		if (removal.Plane{Members: state.Known(list)}).Joined(w.new.name) {
			return looked{over: true}, nil
		}
		return looked{lines: []command.ViewLine{{Host: w.new.name, Doing: says}}}, nil
	}, func(cause error) error {
		if !errors.Is(cause, errNotYet) {
			return fmt.Errorf("interrupted: %s %s; to follow it: %s", w.new.name, says, w.again())
		}
		return coded(command.ExitAttention, "%s %s; until then the loss of one more control plane stops the site (type: holdfast status); to follow it: %s", w.new.name, says, w.again())
	})
}
