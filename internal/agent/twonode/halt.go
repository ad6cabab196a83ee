package twonode

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// HaltEtcd has the etcd keeper stop etcd, and not start it again in this boot, and waits until nobody
// holds its data. Pacemaker must be in maintenance: it notices nothing, and starts nothing. Two other
// members carry the cluster meanwhile (docs/adr/0097).
func (h *Host) HaltEtcd(ctx context.Context) error {
	quiet := h.withoutSecrets()
	quiet.say("stop etcd    # kubelet starts it next")
	if h.DryRun {
		return nil
	}
	if err := h.Stop(ctx); err != nil {
		return err
	}
	return quiet.untilEvery(ctx, pollAway, "etcd of podman has ended", func(context.Context) (string, error) {
		_, held, err := h.holder()
		if err != nil || !held {
			return "", err
		}
		return "it still has the data", nil
	})
}

// askToStop tells the etcd keeper what Pacemaker would tell it.
func askToStop(ctx context.Context) error {
	var answer podmanetcd.Answer
	if err := keeperclient.Send(ctx, state.EtcdSocketPath, "stop", nil, &answer); err != nil {
		return fmt.Errorf("ask the etcd keeper to stop etcd: %w", err)
	}
	if answer.Code != 0 {
		return errors.New("the etcd keeper does not stop etcd: " + answer.Reason)
	}
	return nil
}
