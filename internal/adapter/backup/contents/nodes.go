package contents

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/decide/backup/objects"
	"github.com/holdfast/holdfast/internal/model/state"
)

// nodesPrefix begins the keys of nodes; the name of the node follows.
const nodesPrefix = objects.Root + "minions/"

// ControlPlanes returns the addresses of the control planes. unread says of nodes why theirs cannot
// be read.
func (s *Snapshot) ControlPlanes(ctx context.Context, keys Keys) (addresses []netip.Addr, unread []string, err error) {
	err = s.Each(ctx, nodesPrefix, func(v Value) error {
		n, err := nodeIn(v, keys)
		if err != nil {
			unread = append(unread, fmt.Sprintf("the addresses of %s: %v", strings.TrimPrefix(v.Key, nodesPrefix), err))
			return nil // it is told
		}
		if _, is := n.Labels[state.LabelControlPlane]; !is {
			return nil
		}
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				addresses = append(addresses, ip)
			}
		}
		return nil
	})
	return addresses, unread, err
}

func nodeIn(v Value, keys Keys) (n corev1.Node, err error) {
	place, _ := objects.PlaceOf(v.Key)
	o, err := decode(place, v, keys)
	if err != nil {
		return n, err
	}
	return n, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Content, &n)
}
