package grow

import (
	"context"
	"slices"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// Name gives the cluster of two control planes what follows from the names and the BMCs in a
// site's configuration, after another host has taken the place of a lost one (docs/adr/0083). old is
// the name of the lost one, empty if the other one has the same. It may be cut off and run again.
func Name(ctx context.Context, api API, have, want *site.Site, old string) error {
	changes, err := manifests.Naming(have, want)
	if err != nil {
		return err
	}
	if _, err := Apply(ctx, api, changes); err != nil {
		return err
	}
	if old == "" {
		return nil // its successor has the same name, and the same Jobs
	}
	for _, job := range jobsOf(old) {
		r := state.ObjectRef{APIVersion: "batch/v1", Kind: "Job", Namespace: manifests.NamespaceEtcd, Name: job}
		if err := api.Remove(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// jobsOf returns the names of the Jobs that the set-up of one host may have left. Their pods would
// be made for that host again and again.
func jobsOf(host string) []string {
	return slices.DeleteFunc(handover.JobNames([]string{host}), func(job string) bool { return slices.Contains(handover.JobNames(nil), job) })
}
