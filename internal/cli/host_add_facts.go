package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/dualstack"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/removal"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ownSite reads the site of this host, and its key of join secrets. Only control planes
// have that key.
func ownSite(root string) (*site.Site, []byte, error) {
	data, err := os.ReadFile(filepath.Join(root, site.Path))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil, &UsageError{Err: fmt.Errorf("no key of join secrets: %w: give --dir with the install directory, or run the command on a control plane as root", err)}
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := site.Unmarshal(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", site.Path, err)
	}
	key, err := os.ReadFile(filepath.Join(root, site.JoinKeyPath))
	if errors.Is(err, fs.ErrNotExist) {
		key, err = s.Identity.JoinKey, nil
	}
	if err == nil && len(key) < jointoken.MinKeyBytes {
		err = &UsageError{Err: errors.New("this host is a worker and has no key of join secrets: run the command on a control plane as root, or give --dir with the install directory")}
	}
	return s, key, err
}

// clusterJoinKey reads the key that replaced the installation's, nil if none replaced it.
func clusterJoinKey(ctx context.Context, c client.Reader) ([]byte, error) {
	var s corev1.Secret
	err := c.Get(ctx, client.ObjectKey{Namespace: jointoken.KeyNamespace, Name: jointoken.KeySecret}, &s)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the key of join secrets: %w", err)
	}
	return s.Data[jointoken.KeyField], nil
}

// gather reads the facts about the new host.
func (a *addition) gather(ctx context.Context, s *site.Site) (joining.Adding, error) {
	out := joining.Adding{Role: state.Role(a.role), Host: a.name, Networks: s.Config.MachineNetworks(), VIPs: s.VIPs()}
	for _, text := range a.addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			out.Addresses = append(out.Addresses, address)
		}
	}
	nodes, err := hostNodes(ctx, a.cluster)
	if err != nil {
		return out, err
	}
	for i := range nodes {
		out.Nodes = append(out.Nodes, kube.NodeOf(&nodes[i]))
	}
	list, err := readRetired(ctx, a.cluster)
	if err != nil {
		return out, err
	}
	out.Retired = list.Value
	if a.name != "" {
		var pods corev1.PodList
		if err := a.cluster.List(ctx, &pods, client.MatchingFields{"spec.nodeName": a.name}); err != nil {
			return out, fmt.Errorf("list the pods of %s: %w", a.name, err)
		}
		hold, bound := removal.Bound(pods.Items, removal.Since(out.Retired, a.name, a.now()))
		out.Pods, out.Bound = len(hold), bound
	}
	if out.Upgrade, err = upgradeUnderWay(ctx, a.cluster, a.now()); err != nil {
		return out, err
	}
	out.Family, out.Moves, err = announcedPlans(ctx, a.cluster)
	return out, err
}

// announcedPlans returns the plan that gives the site a second address family, nil for none, and why no
// host comes since a move is announced.
func announcedPlans(ctx context.Context, c client.Reader) (*dualstack.Plan, string, error) {
	infra, err := infrastructureOf(ctx, c)
	if err != nil {
		return nil, "", client.IgnoreNotFound(err)
	}
	family, err := familyPlanOf(infra)
	return family, placeOf(infra).Keeps(), err
}

// follow shows what the host does until its Node is Ready.
func (a *addition) follow(ctx context.Context, s *site.Site) error {
	reports := &configserver.Client{
		Addresses: installer.ConfigServers(s), ServerName: s.APIName(), CA: s.Identity.ConfigCA.Cert, Token: s.Identity.ProgressToken,
	}
	last := "has not asked for its configuration yet"
	return watch(ctx, a.streams.Err, a.timeout, func(ctx context.Context) (looked, error) {
		ready, doing := a.look(ctx, reports.Progress)
		if ready {
			return looked{over: true}, nil
		}
		last = cmp.Or(doing, last)
		return looked{lines: []command.ViewLine{{Host: a.name, Doing: last}}}, nil
	}, func(cause error) error {
		if !errors.Is(cause, errNotYet) {
			return fmt.Errorf("interrupted: the join file stays valid, and the host goes on by itself: %s %s", a.name, last)
		}
		return coded(command.ExitRecovers, "%s is not ready after %s, and goes on: it %s; see: holdfast host show %s", a.name, a.timeout, last, a.name)
	})
}

// lost is the command that takes the host out if it dies before it is ready.
func (a *addition) lost() string {
	if state.Role(a.role).ControlPlane() {
		return "holdfast host replace " + a.name + " --is-gone SERIAL-OF-THAT-MACHINE, once all control planes are nodes"
	}
	return "holdfast host remove " + a.name + " --is-off " + a.name
}

// look asks the API for the Node and, while there is none, the configuration server
// for the host's report. doing is empty if nobody knows.
func (a *addition) look(ctx context.Context, reports func(context.Context) ([]state.Progress, error)) (ready bool, doing string) {
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	n := &corev1.Node{}
	err := a.cluster.Get(ctx, client.ObjectKey{Name: a.name}, n)
	switch {
	case err == nil && kube.NodeOf(n).Ready:
		return true, ""
	case err == nil:
		return false, "is a node, and not ready yet (if that machine is lost for good: " + a.lost() + ")"
	case !apierrors.IsNotFound(err):
		return false, "the API does not answer: " + firstLine(err.Error())
	}
	all, err := reports(ctx)
	if err != nil {
		return false, ""
	}
	for _, p := range all {
		if p.Host == a.name {
			return false, p.Doing()
		}
	}
	return false, ""
}
