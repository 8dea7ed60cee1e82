"""All code that uses private parts of Spark 4.1 and py4j, a module each. Check it with each release of Spark.

====================  ==========================================  =====================================================
module                uses                                        because
====================  ==========================================  =====================================================
``gateway``           ``SparkContext._gateway``                   PySpark cannot be handed a Java that runs already
``gateway_guard``     the server socket of py4j's gateway         it takes connections from any account of the machine
``batch_fetcher``     ``DataStreamWriter._jwrite``, Janino        ``foreachBatch`` opens a port without authentication
``shard_placement``   ``DataFrame._jdf``, ``CoalescedRDD``        DataFrames cannot say where a partition is to run
``lost_executors``    ``TaskSetManager``, Janino                  Spark lets tasks wait for an executor that is lost
``rate_controller``   ``StreamingQuery._jsq``                     limits of a source are fixed when a query starts
``query_cleanup``     selectors and threads of Python sources     queries that ended leave them behind
====================  ==========================================  =====================================================

``shard_assignment`` and ``joining_executors`` decide what ``shard_placement`` applies, and do not use Spark. Spark's
daemon of Python workers is not here: a documented setting replaces it (``runtime/workers/daemon.py``).
"""
