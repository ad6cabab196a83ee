package joining

import (
	"fmt"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Later tells the person who installs a host why it has to wait. Nothing is wrong with the
// host: it asks again. It holds no secret.
type Later string

func (l Later) Error() string { return string(l) }

// Kubelet is the kubelet of a release.
type Kubelet struct {
	// Release is the digest of the release, empty if nobody knows it.
	Release string
	Version state.Fact[gate.Version]
}

// Wait returns Later if a host that joins has to wait for its configuration, nil if it gets
// it. given is the kubelet that it would install, own is the one that the control plane starts
// which it asks.
//
// A kubelet must not be newer than any API server. On the way to another minor release of
// Kubernetes API servers behave as the former one until the commit, and a control plane starts
// the former kubelet until all of them have risen (docs/adr/0076). So no kubelet is too new
// that is no newer than its own. The host gets no configuration at all, rather than no token
// later: that names the release, and would do so still if the site went back.
func Wait(given, own Kubelet) error {
	if own.Release == "" || own.Release == given.Release {
		return nil
	}
	way := "to another minor version of Kubernetes"
	if given.Version.Known && own.Version.Known {
		to, from := given.Version.Value, own.Version.Value
		to.Patch, from.Patch = 0, 0 // they count for nothing
		if to.Compare(from) <= 0 {
			return nil
		}
		way = fmt.Sprintf("from Kubernetes %s to %s", from.Series(), to.Series())
	}
	return Later("the site is being upgraded " + way + ": this host joins once that has ended (holdfast upgrade status)")
}
