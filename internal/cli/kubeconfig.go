package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/account"
	"github.com/holdfast/holdfast/internal/cli/place"
)

func newKubeconfig(streams Streams) *cobra.Command {
	var flags place.Flags
	life, file := "7d", ""
	cmd := &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Make a kubeconfig for one more administrator",
		Long: `Makes a kubeconfig with all rights for a person or a program, with a key of its own
that nobody else sees. The certificate expires after --life and cannot be renewed.

Its rights come from a ClusterRoleBinding that this kubeconfig alone uses. Delete
the binding to take the rights back before the certificate expires; the command
says how. Other kubeconfigs keep theirs.

The API must answer to an administrator. If no administrator is left, use 'kubeadm
certs renew admin.conf' on a control plane. 'holdfast create kubeconfig' with the
install directory serves too, unless kubernetes-ca was replaced ('holdfast ca rotate').`,
		Example: `  holdfast kubeconfig alice
  sudo holdfast kubeconfig backup --life 365d --file /root/backup.kubeconfig`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a := account.Account{Name: args[0], File: cmp.Or(file, args[0]+".kubeconfig")}
			var err error
			if a.Life, err = parseDays(life); err != nil {
				return &UsageError{Err: fmt.Errorf("--life: %w", err)}
			}
			if err := flags.Check(a.Check()...); err != nil {
				return err
			}
			access, err := flags.OpenAPI(cmd.Context())
			if err != nil {
				return err
			}
			// The file is for other machines, whichever way this host has to its API.
			if a.Server, err = (kube.Access{Kubeconfig: access.Kubeconfig}).Config(); err != nil {
				return err
			}
			client, err := access.Client()
			if err != nil {
				return err
			}
			made, err := a.Make(cmd.Context(), client)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(streams.Out, made)
			return err
		},
	}
	cmd.Flags().StringVar(&life, "life", life, "how long the kubeconfig is valid: 10m to 365d")
	cmd.Flags().StringVar(&file, "file", file, "file to write, which must not exist; empty for NAME.kubeconfig")
	flags.DeclareKubeconfig(cmd)
	return cmd
}
