package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
)

// joinPointer makes the Ignition file of a new control plane, valid for life, from the
// site's authorities on this host and the key of join secrets that the cluster has now.
func joinPointer(ctx context.Context, name string, life time.Duration) ([]byte, error) {
	s, own, err := ownSite("/")
	if err != nil {
		return nil, err
	}
	c, err := kube.Open(state.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	secret, err := c.Secret(ctx, jointoken.KeyNamespace, jointoken.KeySecret)
	if err != nil {
		return nil, err
	}
	s = signing(s, own, secret[jointoken.KeyField])
	s.Identity.JoinUntil = time.Now().Add(life).UTC().Truncate(time.Second)
	return installer.Pointer(s, state.RoleMaster, name)
}

// writeJoin writes the Ignition file of the new machine, where one is wanted. name is that of the
// host.
func (r *hostReplacement) writeJoin(ctx context.Context, name string) error {
	if r.joinFile == "" {
		r.say("no join file was wanted: %s --join-file FILE", r.again())
		return nil
	}
	data, err := r.pointer(ctx, name, r.joinLife)
	if err != nil {
		return fmt.Errorf("make the join file: %w", err)
	}
	if err := host.WriteFileAtomic(r.joinFile, data, state.SecretFileMode); err != nil {
		return err
	}
	valid := ""
	if r.uuid != "" {
		valid = ", for the machine with the UUID " + r.uuid
	}
	r.say("%s: install the new machine with it; good for %s%s", r.joinFile, r.joinLife, valid)
	return nil
}
