package machineconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	adapter "github.com/holdfast/holdfast/internal/adapter/updates"
	"github.com/holdfast/holdfast/internal/agent/network/registration"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

// ThisHost returns the effects on the running host.
func ThisHost() Host {
	w := hostconfig.NewWriter("/")
	return Host{
		Store: w.Store, Configure: configure, Differences: w.Differences, Systemctl: systemctl, Kubelet: registration.KubeletIsWell,
		Refusal: func(ctx context.Context, cfg Config) (string, error) {
			if !host.Exists(filepath.Join(unitDir, unit.ConfigureUnit)) {
				return noUnit, nil
			}
			return w.Refusal(ctx, cfg)
		},
		SurroundingUnits: surroundingUnits,
		First:            func() (*mcfgv1.MachineConfig, error) { return hostconfig.First("/") },
		Joined:           func() bool { return host.Exists(state.KubeletKubeconfig) },
		Updates:          adapter.NewStore("/"),
		Locks:            locksOfLogind,
		Required: func(ctx context.Context) updates.Required {
			return adapter.Required(ctx, "/", host.Run)
		},
		Boot: observe.Boot,
		Parameter: func(name string) (string, error) {
			value, err := os.ReadFile(filepath.Join(parametersDir, name))
			return strings.TrimSpace(string(value)), err
		},
		SetParameter: func(name, value string) error {
			return os.WriteFile(filepath.Join(parametersDir, name), []byte(value), state.DefaultFileMode)
		},
		CommandLine: func() (string, error) {
			line, err := os.ReadFile("/proc/cmdline")
			return string(line), err
		},
	}
}

const (
	parametersDir = "/proc/sys"
	unitDir       = "/etc/systemd/system"
	noUnit        = "this host has no " + unit.ConfigureUnit + ", because an earlier build installed it; install the host anew"
)

func systemctl(ctx context.Context, args ...string) ([]byte, error) {
	return host.Run(ctx, host.Command("systemctl", args...))
}

// configureTime bounds the unit that writes files. A boot loader's tool takes most
// of it.
const configureTime = 15 * time.Minute

// configure has the unit write what the journal names. A restart ends a run that
// is left from an earlier agent, and that may write another configuration.
func configure(ctx context.Context, name string) error {
	limited, cancel := context.WithTimeoutCause(ctx, configureTime, fmt.Errorf("no end after %s", configureTime))
	defer cancel()
	if err := hostconfig.ForgetResult("/"); err != nil {
		return err
	}
	_, err := systemctl(limited, "restart", "--", unit.ConfigureUnit)
	result, unknown := hostconfig.ReadResult("/")
	switch {
	case unknown == nil && result.Error != "":
		return errors.New(result.Error)
	case err != nil:
		return err
	case unknown != nil:
		return fmt.Errorf("what %s did: %w", unit.ConfigureUnit, unknown)
	case result.Config != name:
		return fmt.Errorf("%s wrote %q and not %q", unit.ConfigureUnit, result.Config, name)
	}
	return nil
}

// surroundingUnits writes the units even where they are there, as systemd may not have
// read them before a crash.
func surroundingUnits(ctx context.Context) error {
	if _, err := host.WriteFiles("/", unit.SurroundingUnits()); err != nil {
		return err
	}
	if _, err := systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	_, err := systemctl(ctx, "enable", "--", unit.TrustUnit)
	return err
}
