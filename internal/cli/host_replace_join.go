package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// joinPointer makes the Ignition file of a new control plane, valid for life, from the
// site's authorities on this host and the key of join secrets that the cluster has now.
func joinPointer(ctx context.Context, name string, life time.Duration) ([]byte, error) {
	data, err := os.ReadFile(site.Path)
	if err != nil {
		return nil, err
	}
	s, err := site.Unmarshal(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", site.Path, err)
	}
	c, err := kube.Open(state.AdminKubeconfig)
	if err != nil {
		return nil, err
	}
	secret, err := c.Secret(ctx, jointoken.KeyNamespace, jointoken.KeySecret)
	if err != nil {
		return nil, err
	}
	if key := secret[jointoken.KeyField]; len(key) > 0 {
		s.Identity.JoinKey = key
	}
	s.Identity.JoinUntil = time.Now().Add(life).UTC().Truncate(time.Second)
	return installer.Pointer(s, state.RoleMaster, name)
}
