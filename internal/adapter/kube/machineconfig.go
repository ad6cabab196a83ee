package kube

import (
	"context"
	"encoding/json"
	"fmt"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
)

// machineConfigs is the path of the objects with configurations of hosts.
const machineConfigs = "/apis/machineconfiguration.openshift.io/v1/machineconfigs"

// MachineConfig returns one configuration of hosts.
func (c *Client) MachineConfig(ctx context.Context, name string) (*mcfgv1.MachineConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := raw(c.set.CoreV1().RESTClient().Get().AbsPath(machineConfigs, name).SetHeader("Accept", "application/json").Do(ctx))
	if err != nil {
		return nil, fmt.Errorf("get MachineConfig %s: %w", name, err)
	}
	out := &mcfgv1.MachineConfig{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("get MachineConfig %s: %w", name, err)
	}
	return out, nil
}
