package backup

// Where the wish of a site lies in the API: when backups are taken in a Backup of
// config.openshift.io/v1alpha1, where they go in a Secret.
const (
	ObjectName      = "cluster"
	SecretNamespace = "openshift-etcd"
	SecretName      = "holdfast-backup"
	SecretKey       = "config.yaml"
)
