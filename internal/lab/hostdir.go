package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// prepareHostDir makes the directories that a host's container mounts: its
// volumes, and the read-only library with the host's identity and agent.
func (b *Lab) prepareHostDir(h Host) error {
	dir := b.hostDir(h)
	for name := range volumes {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
	}
	lib := filepath.Join(dir, "lib")
	// On a real machine dmidecode and /sys/class/dmi/id show these values.
	for name, value := range map[string]string{"product_uuid": h.UUID, "product_serial": h.Serial} {
		if err := host.WriteFileAtomic(filepath.Join(lib, "dmi", name), []byte(value+"\n"), 0o444); err != nil {
			return err
		}
	}
	return b.placeAgent(lib)
}

// placeAgent links the agent's binary into a host's library. It tries a hard
// link first, because a copy costs space per host and a bind mount a mount per
// host.
func (b *Lab) placeAgent(lib string) error {
	if b.Options.Agent == "" {
		return nil
	}
	target := filepath.Join(lib, "holdfast-agent")
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if os.Link(b.Options.Agent, target) == nil {
		return nil
	}
	data, err := os.ReadFile(b.Options.Agent)
	if err != nil {
		return fmt.Errorf("agent for the hosts: %w", err)
	}
	return host.WriteFileAtomic(target, data, 0o755)
}

// giveIgnition puts a host's Ignition config where its first boot looks for it.
// The config holds secrets of the site.
func (b *Lab) giveIgnition(h Host, data []byte) error {
	return host.WriteFileAtomic(b.ignitionFile(h), data, 0o600)
}

func (b *Lab) ignitionFile(h Host) string { return filepath.Join(b.hostDir(h), "lib", "ignition.json") }

// emptyDir removes everything in the lab's directory. The directory itself
// stays, and stays locked.
func (b *Lab) emptyDir() error {
	if err := unmountBelow(b.Dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(b.Dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(b.Dir, e.Name())))
	}
	return errors.Join(errs...)
}
