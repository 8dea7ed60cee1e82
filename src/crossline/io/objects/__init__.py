"""Files that lie elsewhere than on this machine's disk: on an object store, or in HDFS."""
