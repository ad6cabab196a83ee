package pacemaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// switchesTimeout bounds the question, which takes 50 ms if Pacemaker answers.
const switchesTimeout = 5 * time.Second

// FencingAllowed returns an error if an administrator has told Pacemaker not to act.
// Pacemaker itself would then not fence either, but stonith_admin ignores these
// settings. resource is the resource for which the fence is wanted. It is also
// an error if Pacemaker does not answer.
func FencingAllowed(ctx context.Context, resource string) error {
	c, err := status(ctx, switchesTimeout)
	if err != nil {
		return fmt.Errorf("ask whether Pacemaker is in maintenance: %w", err)
	}
	return mayFence(c, resource)
}

func mayFence(c crmmon.Cluster, resource string) error {
	switch {
	case !c.Options.FencingEnabled:
		return errors.New("stonith-enabled is false, so no host is fenced (pcs property set stonith-enabled=true)")
	case c.Options.Maintenance:
		return errors.New("the cluster is in maintenance mode, so no host is fenced (pcs property set maintenance-mode=false)")
	}
	for _, n := range c.Nodes {
		if n.Maintenance {
			return fmt.Errorf("%s is in maintenance, so no host is fenced (pcs node unmaintenance %s)", n.Name, n.Name)
		}
	}
	for _, r := range c.Resources {
		// A resource on which Pacemaker itself gave up is blocked.
		if r.ID == resource && (r.Maintenance || !r.Managed && !r.Blocked) {
			return fmt.Errorf("%s is unmanaged or in maintenance in Pacemaker, so no host is fenced for it (pcs resource manage %s)", resource, resource)
		}
	}
	return nil
}
