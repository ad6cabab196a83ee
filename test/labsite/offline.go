package labsite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Offline lets fn read the disk of a host that is off, below root. What is in memory is not
// there, nor what lies in the host's directories of etcd, kubelet and containers.
func (s *Site) Offline(ctx context.Context, name string, fn func(root string) error) error {
	h, known := s.Lab.Layout.Host(name)
	if !known {
		return fmt.Errorf("the lab has no host %s", name)
	}
	out, err := host.Run(ctx, podman("mount", h.Container))
	if err != nil {
		return fmt.Errorf("the disk of %s: %w", name, err)
	}
	err = fn(strings.TrimSpace(string(out)))
	_, over := host.Run(context.WithoutCancel(ctx), podman("umount", h.Container))
	return errors.Join(err, over)
}

// podman has the flags that the lab gives it (internal/lab).
func podman(args ...string) host.Cmd {
	fixed := []string{"--runtime", "runc", "--events-backend", "file", "--cgroup-manager", "cgroupfs"}
	return host.Command("podman", append(fixed, args...)...)
}
