package pacemaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// switchesTimeout bounds the question; it takes 50 ms where Pacemaker answers.
const switchesTimeout = 5 * time.Second

// MayFence returns an error where a person has told Pacemaker not to act, on
// whose word a fence of its own would not come either: stonith_admin heeds none
// of it. resource is the one for whose sake the fence is wanted. Where Pacemaker
// does not say, it is an error too.
func MayFence(ctx context.Context, resource string) error {
	c, err := status(ctx, switchesTimeout)
	if err != nil {
		return fmt.Errorf("ask whether Pacemaker is in maintenance: %w", err)
	}
	return mayFence(c, resource)
}

func mayFence(c crmmon.Cluster, resource string) error {
	switch {
	case !c.Options.FencingEnabled:
		return errors.New("stonith-enabled is false, so nobody is fenced (pcs property set stonith-enabled=true)")
	case c.Options.Maintenance:
		return errors.New("the cluster is in maintenance mode, so nobody is fenced (pcs property set maintenance-mode=false)")
	}
	for _, n := range c.Nodes {
		if n.Maintenance {
			return fmt.Errorf("%s is in maintenance, so nobody is fenced (pcs node unmaintenance %s)", n.Name, n.Name)
		}
	}
	for _, r := range c.Resources {
		// One that Pacemaker itself gave up on is blocked.
		if r.ID == resource && (r.Maintenance || !r.Managed && !r.Blocked) {
			return fmt.Errorf("a person told Pacemaker not to manage %s, so nobody is fenced for it (pcs resource manage %s)", resource, resource)
		}
	}
	return nil
}
