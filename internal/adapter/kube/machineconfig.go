package kube

import (
	"context"
	"encoding/json"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// machineKinds is the path of the kinds about configurations of hosts.
const machineKinds = "/apis/machineconfiguration.openshift.io/v1"

// MachineConfig returns one configuration of hosts.
func (c *Client) MachineConfig(ctx context.Context, name string) (*mcfgv1.MachineConfig, error) {
	out := &mcfgv1.MachineConfig{}
	if err := c.machineKind(ctx, "machineconfigs", name, out); err != nil {
		return nil, fmt.Errorf("get MachineConfig %s: %w", name, err)
	}
	return out, nil
}

// MachineConfigPool returns one pool of hosts.
func (c *Client) MachineConfigPool(ctx context.Context, name string) (*mcfgv1.MachineConfigPool, error) {
	out := &mcfgv1.MachineConfigPool{}
	if err := c.machineKind(ctx, "machineconfigpools", name, out); err != nil {
		return nil, fmt.Errorf("get MachineConfigPool %s: %w", name, err)
	}
	return out, nil
}

func (c *Client) machineKind(ctx context.Context, kind, name string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := raw(c.set.CoreV1().RESTClient().Get().AbsPath(machineKinds, kind, name).SetHeader("Accept", "application/json").Do(ctx))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, out)
}
