package pacemaker

// Query is a command of Corosync or Pacemaker that reads the cluster and changes
// nothing.
type Query struct {
	// File is a file name for the output, and Description describes the output.
	File, Description string
	Command           []string
}

// DiagnosticQueries returns the queries whose output helps to find a fault.
func DiagnosticQueries() []Query {
	return []Query{
		{"crm_mon.xml", "Pacemaker's status", reportLine},
		{"cib.xml", "Pacemaker's configuration, without passwords", []string{"cibadmin", "--query"}},
		{"status.txt", "Pacemaker's status as text", []string{"pcs", "status", "--full"}},
		{"fences.txt", "Pacemaker's history of fences", []string{"stonith_admin", "--history=*", "--verbose"}},
		{"quorum.txt", "Corosync's membership", []string{"corosync-quorumtool", "-s"}},
		{"links.txt", "Corosync's links", []string{"corosync-cfgtool", "-s"}},
		{"corosync-map.txt", "Corosync's counters", []string{"corosync-cmapctl", "-m", "stats"}},
	}
}
